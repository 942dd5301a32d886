// Onnx is an HTTP server that classifies images with ONNX Runtime. No tensor is copied between the request and the answer.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"log"
	"net/http"
	"os"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/onnxruntime"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

//go:embed model.onnx
var model []byte

const side = 224

// The colours are scaled to the range 0 to 1, and then normalised by the mean and the standard deviation of the images
// with which models are usually trained.
var normalise = dlpack.Scaling{
	Scale: []float64{1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225)},
	Shift: []float64{-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225},
	Dim:   -1,
}

type server struct{ model *onnxruntime.Runner }

// ServeHTTP accepts an image as PNG (Content-Type: image/png) or as rows of RGB bytes. It answers with the scores of
// the classes, as a TensorProto (Accept: application/x-protobuf) or as JSON.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var pixels *dlpack.Tensor
	if err == nil && r.Header.Get("Content-Type") == "image/png" {
		pixels, err = decodePNG(body)
	} else if err == nil {
		pixels, err = dlpack.FromSlice(body, side, side, 3)
	}
	if err != nil {
		http.Error(w, elements.WithoutRemedy(err), http.StatusBadRequest)
		return
	}
	defer pixels.Close()
	scores, err := s.classify(pixels)
	if err != nil {
		http.Error(w, elements.WithoutRemedy(err), http.StatusInternalServerError)
		return
	}
	defer scores.Close()
	if r.Header.Get("Accept") == "application/x-protobuf" {
		w.Header().Set("Content-Type", "application/x-protobuf")
		err = tensorflow.WriteTensor(w, scores)
	} else {
		w.Header().Set("Content-Type", "application/json")
		err = dlpack.Read(scores, func(values []float32) error { return json.NewEncoder(w).Encode(values) })
	}
	if err != nil {
		log.Print(err) // the client has disconnected
	}
}

// decodePNG returns the colours of an image, as a view without the alpha bytes between them.
func decodePNG(data []byte) (*dlpack.Tensor, error) {
	if c, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || c.Width != side || c.Height != side {
		return nil, fmt.Errorf("the image is not a PNG of %d by %d pixels", side, side)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	s := dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{side, side, 3}, Strides: []int64{4 * side, 4, 1}}
	switch img := img.(type) {
	case *image.RGBA:
		return dlpack.FromBytes(img.Pix, s)
	case *image.NRGBA:
		return dlpack.FromBytes(img.Pix, s)
	}
	return nil, fmt.Errorf("the image is not a PNG with three or four channels of 8 bits")
}

func (s *server) classify(pixels *dlpack.Tensor) (*dlpack.Tensor, error) {
	input, err := dlpack.New(dlpack.Float32, 1, 3, side, side)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	if err := fill(input, pixels); err != nil {
		return nil, err
	}
	outputs := map[string]*dlpack.Tensor{}
	err = s.model.Run(map[string]*dlpack.Tensor{"image": input}, outputs)
	return outputs["scores"], err
}

// fill converts, normalises and transposes the pixels into the input of the model, in one pass.
func fill(input, pixels *dlpack.Tensor) error {
	planes, err := input.Index(0)
	if err != nil {
		return err
	}
	defer planes.Close()
	rows, err := planes.Transpose(1, 2, 0)
	if err != nil {
		return err
	}
	defer rows.Close()
	return pixels.ConvertScaled(rows, normalise)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: onnx LIBRARY ADDRESS, such as: onnx libonnxruntime.so localhost:8080")
	}
	ort.SetSharedLibraryPath(os.Args[1])
	if err := ort.InitializeEnvironment(); err != nil {
		log.Fatal(err)
	}
	m, err := onnxruntime.OpenBytes(model, nil, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[2], &server{m}))
}
