package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/bridge/onnxruntime"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

var requests = flag.Int("requests", 1000, "the number of requests of the test")

// PYTHON names a Python with the package onnxruntime. The test uses the library of that package.
func TestMain(m *testing.M) {
	flag.Parse()
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	library, err := exec.Command(python, "-c", `import glob, os, onnxruntime
print(glob.glob(os.path.dirname(onnxruntime.__file__) + "/capi/libonnxruntime.*")[0], end="")`).Output()
	if err != nil {
		panic(fmt.Sprintf("%s has no onnxruntime: %v; PYTHON must name a Python that has it", python, err))
	}
	ort.SetSharedLibraryPath(string(library))
	if err := ort.InitializeEnvironment(); err != nil {
		panic(err)
	}
	dlpacktest.Main(m)
}

// copying is the same server with the binding's inputs and outputs: a new slice for each input, and outputs that the
// binding copies.
type copying struct {
	session *ort.DynamicAdvancedSession
}

func (s *copying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var scores []float32
	if err == nil {
		scores, err = s.classify(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(scores)
}

func (s *copying) classify(body []byte) ([]float32, error) {
	pixels, err := dlpack.FromSlice(body, side, side, 3)
	if err != nil {
		return nil, err
	}
	defer pixels.Close()
	floats := make([]float32, 3*side*side)
	input, err := dlpack.FromSlice(floats, 1, 3, side, side)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	if err := fill(input, pixels); err != nil {
		return nil, err
	}
	in, err := ort.NewTensor(ort.NewShape(1, 3, side, side), floats)
	if err != nil {
		return nil, err
	}
	defer in.Destroy()
	out := []ort.Value{nil}
	if err := s.session.Run([]ort.Value{in}, out); err != nil {
		return nil, err
	}
	defer out[0].Destroy()
	return out[0].(*ort.Tensor[float32]).GetData(), nil
}

func servers(t testing.TB) map[string]http.Handler {
	one := must.Do(ort.NewSessionOptions())(t)
	defer one.Destroy()
	require.NoError(t, one.SetIntraOpNumThreads(1))
	r := must.Own(onnxruntime.OpenBytes(model, nil, nil, one))(t)
	s := must.Do(ort.NewDynamicAdvancedSessionWithONNXData(model, []string{"image"}, []string{"scores"}, one))(t)
	t.Cleanup(func() { s.Destroy() })
	return map[string]http.Handler{"tensors": &server{r}, "copies": &copying{s}}
}

func pixels() []byte {
	data := make([]byte, side*side*3)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	return data
}

func ask(t testing.TB, h http.Handler, kind, accept string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func scores(t testing.TB, w *httptest.ResponseRecorder) *dlpack.Tensor {
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var values []float32
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &values))
	return must.Own(dlpack.FromSlice(values, 1, 10))(t)
}

func TestAnswersAreThoseOfTheCopyingServer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	both := servers(t)
	raw := pixels()
	want := scores(t, ask(t, both["copies"], "", "", raw))
	dlpacktest.AllClose(t, want, scores(t, ask(t, both["tensors"], "", "", raw)), 1e-5, 1e-6)

	for _, alpha := range []byte{255, 254} { // RGBA and NRGBA
		img := image.NewNRGBA(image.Rect(0, 0, side, side))
		for i := range side * side {
			copy(img.Pix[4*i:], append(append([]byte{}, raw[3*i:3*i+3]...), alpha))
		}
		var file bytes.Buffer
		require.NoError(t, png.Encode(&file, img))
		dlpacktest.AllClose(t, want, scores(t, ask(t, both["tensors"], "image/png", "", file.Bytes())), 1e-5, 1e-6)
	}
	w := ask(t, both["tensors"], "", "application/x-protobuf", raw)
	dlpacktest.AllClose(t, want, must.Own(tensorflow.DecodeTensor(w.Body.Bytes()))(t), 1e-5, 1e-6)

	for kind, body := range map[string][]byte{"": raw[1:], "image/png": raw} {
		assert.Equal(t, http.StatusBadRequest, ask(t, both["tensors"], kind, "", body).Code)
	}
}

func TestInputsAreNormalisedPlanes(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	raw := pixels()
	want := make([]float32, len(raw))
	for i, b := range raw {
		c := i % 3
		want[c*side*side+i/3] = float32(b)*float32(normalise.Scale[c]) + float32(normalise.Shift[c])
	}
	input := must.Own(dlpack.New(dlpack.Float32, 1, 3, side, side))(t)
	require.NoError(t, fill(input, must.Own(dlpack.FromSlice(raw, side, side, 3))(t)))
	dlpacktest.AllClose(t, must.Own(dlpack.FromSlice(want, 1, 3, side, side))(t), input, 1e-6, 1e-6)
}

func TestScoresAreNotCopied(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	h := servers(t)["tensors"].(*server)
	answer := must.Own(h.classify(must.Own(dlpack.FromSlice(pixels(), side, side, 3))(t)))(t)
	assert.Zero(t, answer.Flags()&dlpack.IsCopied)
}

func TestNothingIsLeftAfterManyRequests(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	h, raw := servers(t)["tensors"], pixels()
	before := dlpack.ReadStats()
	for range *requests {
		require.Equal(t, http.StatusOK, ask(t, h, "", "", raw).Code)
	}
	dlpack.Reap()
	assert.Equal(t, before, dlpack.ReadStats())
}

// BenchmarkServer sends requests over HTTP to both servers.
func BenchmarkServer(b *testing.B) {
	both := servers(b)
	for _, name := range []string{"copies", "tensors"} {
		b.Run(name, func(b *testing.B) {
			s := httptest.NewServer(both[name])
			defer s.Close()
			raw := pixels()
			for b.Loop() {
				r, err := http.Post(s.URL, "", bytes.NewReader(raw))
				require.NoError(b, err)
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
