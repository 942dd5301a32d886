//go:build cgo

package capi_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/tens/tenstest"
)

// measurer is a running amplification.c.
type measurer struct {
	sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// The program is built without a sanitizer, because sanitizers allocate memory too.
func startMeasurer(t testing.TB) *measurer {
	dir := t.TempDir()
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-tags=dlbridge_fault", "-o", filepath.Join(dir, "libfault.so"), "../libdlbridge")
	program := compile(t, "cc", "amplification.c", append(append(slices.Clone(c11), "testdata/count_memory.c"), linked(dir, "fault")...)...)
	command := exec.Command(program)
	in := must.Do(command.StdinPipe())(t)
	out := must.Do(command.StdoutPipe())(t)
	var complaints strings.Builder
	command.Stderr = &complaints
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, command.Wait(), complaints.String())
	})
	return &measurer{in: in, out: bufio.NewReader(out)}
}

// require fails the test if an operation takes more memory than a multiple of the input and a limit. The memory is the
// maximum of C at any time, and the total of Go.
func (m *measurer) require(t testing.TB, op string, options uint64, data []byte, input int, times, limit uint64) {
	t.Helper()
	var c, inGo uint64
	var status string
	for range 3 { // other work of Go may add to the first measurements
		c, inGo, status = m.measure(t, op, options, data)
		if c+inGo <= times*uint64(input)+limit+amplification.Overhead {
			return
		}
	}
	require.LessOrEqual(t, c+inGo, times*uint64(input)+limit+amplification.Overhead,
		"%s with options %#x: %s; %d bytes of C and %d of Go for %d of input, which may take %d times as much and %d beyond that",
		op, options, status, c, inGo, input, times, limit)
}

// measure returns the memory that an operation takes in C and in Go, and its status.
func (m *measurer) measure(t testing.TB, op string, options uint64, data []byte) (c, inGo uint64, status string) {
	m.Lock()
	defer m.Unlock()
	must.Do(fmt.Fprintf(m.in, "%s %d %d\n%s", op, options, len(data), data))(t)
	line := must.Do(m.out.ReadString('\n'))(t)
	_, err := fmt.Sscanf(line, "%d %d %s", &c, &inGo, &status)
	require.NoError(t, err, line)
	return c, inGo, status
}

const frameSize = 40 // the size of a dlb_frame, which the caller allocates for each frame

// value measures a message of a format. If long is false, it leaves out commands that may take much memory.
func (m *measurer) value(t testing.TB, f *formats.Format, data []byte, long bool) {
	for _, c := range f.InC.Commands {
		if long || c.Limit < 1<<20 {
			m.require(t, c.Op, c.Options, data, len(data), amplification.Variable, c.Limit)
		}
	}
}

// perFrame is the additional memory for each frame of the packed form if the label is decoded: a Go slice.
const perFrame = 24

// message measures a message in packed form, and of frames.
func (m *measurer) message(t testing.TB, packed []byte, times uint64) {
	frames := 0
	for at := 0; at < len(packed); frames++ {
		if size := int(packed[at]); size < 255 {
			at += 1 + size
		} else if at+5 <= len(packed) {
			at += 5 + int(packed[at+1])<<24 + int(packed[at+2])<<16 + int(packed[at+3])<<8 + int(packed[at+4])
		} else {
			break
		}
	}
	m.require(t, "unpack", 1, packed, len(packed), times, 0)
	m.require(t, "unpack", 0, packed, len(packed), times, uint64(frames)*perFrame)
	m.require(t, "message", 0, packed, len(packed)+frames*frameSize, times, 0)
}

func TestReadingTakesMemoryInProportionToTheInput(t *testing.T) {
	testmode.SkipMemory(t)
	m := startMeasurer(t)
	each := func(inputs map[string][]byte, measure func(t testing.TB, data []byte)) {
		for name, data := range inputs {
			t.Run(name, func(t *testing.T) { measure(t, data) })
		}
	}
	each(tenstest.Labels(), func(t testing.TB, label []byte) {
		m.message(t, tenstest.Pack(tenstest.Frames(label)), amplification.Label)
	})
	each(tenstest.Packed(), func(t testing.TB, packed []byte) { m.message(t, packed, amplification.Variable) })
	for _, f := range valueFormats() {
		each(f.Hostile(), func(t testing.TB, data []byte) { m.value(t, f, data, !testing.Short()) })
		each(f.InC.Fixed, func(t testing.TB, data []byte) {
			plain := f.InC.Commands[0]
			m.require(t, plain.Op, plain.Options, data, len(data), amplification.Fixed, plain.Limit)
		})
	}
}

// The memory for the descriptions of a file and for its metadata has the bounds of bridge/README.md.
func TestFilesTakeMemoryInProportionToTheirDescriptions(t *testing.T) {
	testmode.SkipMemory(t)
	m := startMeasurer(t)
	const n, inGo, inC = 20_000, 16 + amplification.Variable, 8
	members := func(value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%x":%s`, i, value)
		}
		return b.String()[1:]
	}
	safetensors := func(header string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	}
	gguf := func(tensors, fields uint64, contents ...any) []byte {
		b := bytes.NewBufferString("GGUF")
		for _, v := range append([]any{uint32(3), tensors, fields}, contents...) {
			require.NoError(t, binary.Write(b, binary.LittleEndian, v))
		}
		return append(b.Bytes(), make([]byte, -b.Len()&31)...)
	}
	field := func(typ uint32, contents ...any) []byte { // named "k"
		return gguf(0, 1, append([]any{uint64(1), byte('k'), typ}, contents...)...)
	}
	var tensors []any // of int8, without elements
	for i := range n {
		name := fmt.Sprintf("%x", i)
		tensors = append(tensors, uint64(len(name)), []byte(name), uint32(1), uint64(0), uint32(24), uint64(0))
	}
	const text, array, ofUint8, ofFloat32, ofBool = 8, 9, 0, 6, 7
	for name, data := range map[string][]byte{
		"tensors of safetensors":           safetensors("{" + members(`{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`) + "}"),
		"tensors with dimensions":          safetensors("{" + members(`{"dtype":"U8","shape":[`+strings.Repeat("0,", 20)+`0],"data_offsets":[0,0]}`) + "}"),
		"metadata of safetensors":          safetensors(`{"__metadata__":{` + members(`"\n"`) + "}}"),
		"tensors of GGUF":                  gguf(n, 0, tensors...),
		"text of bytes that are not UTF-8": field(text, uint64(n), bytes.Repeat([]byte{0xff}, n)),
		"array of bytes":                   field(array, uint32(ofUint8), uint64(n), bytes.Repeat([]byte{0xff}, n)),
		"array of numbers":                 field(array, uint32(ofFloat32), uint64(n), slices.Repeat([]float32{-math.SmallestNonzeroFloat32}, n)),
		"array of bools":                   field(array, uint32(ofBool), uint64(n), make([]byte, n)),
	} {
		t.Run(name, func(t *testing.T) {
			m.require(t, "file", 0, data, len(data), inGo+inC, 0)
			m.require(t, "metadata", 0, data, len(data), inC, 0)
			c, _, status := m.measure(t, "file", 0, data)
			require.Equal(t, "ok", status)
			require.LessOrEqual(t, c, uint64(inC*len(data)+amplification.Overhead))
		})
	}
}

// valueFormats returns the formats whose messages are values, in a fixed order.
func valueFormats() []*formats.Format {
	return slices.DeleteFunc(slices.Clone(formats.All), func(f *formats.Format) bool { return f.InC == nil })
}

// FuzzAmplification checks that decoding any frame takes at most a multiple of its size and the limit.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	m := startMeasurer(f)
	values := valueFormats()
	inputs := []map[string][]byte{tenstest.Labels(), tenstest.Packed()}
	for _, format := range values {
		if format.InC.Seeds != nil {
			format.InC.Seeds(func(data []byte, at, size, times uint16) { f.Add(byte(len(inputs)), data, at, size, times) })
		}
		inputs = append(inputs, format.Hostile())
	}
	for op, named := range inputs {
		for _, data := range named {
			f.Add(byte(op), data[:min(len(data), 2000)], uint16(0), uint16(0), uint16(0))
			f.Add(byte(op), data[:min(len(data), 2000)], uint16(10), uint16(20), uint16(2000))
		}
	}
	f.Add(byte(0), []byte(`{"TENS":{"tensors":[`+tenstest.Scalar+`,`+tenstest.Scalar+`]}}`),
		uint16(20+len(tenstest.Scalar)), uint16(len(tenstest.Scalar)+1), uint16(2000))
	f.Fuzz(func(t *testing.T, op byte, data []byte, at, size, times uint16) {
		data = amplification.Repeat(data, at, size, times)
		switch op := int(op) % len(inputs); op {
		case 0:
			m.message(t, tenstest.Pack(tenstest.Frames(data)), amplification.Label)
		case 1:
			m.message(t, data, amplification.Label)
		default:
			m.value(t, values[op-2], data, false)
		}
	})
}
