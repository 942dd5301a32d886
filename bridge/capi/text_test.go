//go:build cgo

package capi_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// questions has the input of testdata/text.c, and the answers of the Go functions.
type questions struct{ input, want []string }

func (q *questions) ask(question, answer string) {
	q.input, q.want = append(q.input, question), append(q.want, answer)
}

func dtypeNumbers(dt dlpack.DataType) string {
	return fmt.Sprint(uint8(dt.Code()), dt.Bits(), dt.Lanes())
}

func (q *questions) parse(text string) {
	if strings.ContainsAny(text, "\n\x00") {
		return
	}
	dt, err := dlpack.ParseDataType(text)
	answer := dtypeNumbers(dt)
	if err != nil {
		answer = "error dtype"
	}
	q.ask("parse_dtype "+text, answer)
	device, err := dlpack.ParseDevice(text)
	answer = fmt.Sprint(int32(device.Type), device.ID)
	if err != nil {
		answer = "error device"
	}
	q.ask("parse_device "+text, answer)
}

// numpyNames returns the names of NumPy that the comment of dlb_dtype_parse lists, with their types.
func numpyNames(t *testing.T) map[string]string {
	d := header(t)
	at := slices.IndexFunc(d.functions, func(f function) bool { return f.name == "dlb_dtype_parse" })
	names := make(map[string]string)
	for _, list := range regexp.MustCompile(`(bool|\w+\d): ((?:"[^"]+" ?)+)`).FindAllStringSubmatch(d.functions[at].text(), -1) {
		for _, name := range strings.Fields(list[2]) {
			names[strings.Trim(name, `"`)] = list[1]
		}
	}
	return names
}

// The header lists the names of NumPy that C reads, and Go reads them too.
func TestTheHeaderListsTheNamesOfNumPy(t *testing.T) {
	names := numpyNames(t)
	for name, want := range names {
		dt, err := dlpack.ParseDataType(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, dt.String(), name)
	}
	var listed, read []string
	for name := range names {
		listed = append(listed, name)
	}
	for _, row := range regexp.MustCompile(`\{"([^"]+)", [01], \{kDL`).FindAllStringSubmatch(string(must.Do(os.ReadFile("dtype.c"))(t)), -1) {
		read = append(read, row[1])
	}
	assert.ElementsMatch(t, read, listed)
}

// inOneLine returns what %v prints, without line breaks and the spaces that align columns.
func inOneLine(x *dlpack.Tensor) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(fmt.Sprint(x)), " "), "[ ", "[")
}

// tensor asks for the texts of a tensor and of its conversion to another type.
func (q *questions) tensor(t *testing.T, data []byte, spec dlpack.Spec, device dlpack.Device, to dlpack.DataType) {
	x := must.Do(dlpack.FromBytes(data, spec))(t)
	defer x.Close()
	numbers := func(n []int64) string { return strings.Trim(fmt.Sprint(n), "[]") }
	line := fmt.Sprintf("%s %d %d %d %d %s %s %s", dtypeNumbers(spec.DType), uint64(x.Flags()), device.Type,
		spec.ByteOffset, x.Rank(),
		numbers(x.Shape()), numbers(x.Strides()), hex.EncodeToString(data))
	if device != (dlpack.Device{Type: dlpack.CPU}) {
		described, _, _ := strings.Cut(x.String(), " on ")
		q.ask("format "+line, fmt.Sprintf("%s on %v", described, device))
		return
	}
	q.ask("format "+line, inOneLine(x))
	converted, err := x.Convert(to)
	if errors.Is(err, dlpack.ErrDType) {
		return
	}
	require.NoError(t, err)
	defer converted.Close()
	q.ask("convert "+dtypeNumbers(to)+" "+line, inOneLine(converted))
}

// Names of types and devices, and the text of tensors and of their conversions, are the same in C and in Go.
func TestTextInCIsThatOfGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var q questions
	var dtypes []dlpack.DataType
	for code := range 20 {
		for bits := range 256 {
			for _, lanes := range []uint16{0, 1, 2, 65535} {
				dt := dlpack.MakeDataType(dlpack.TypeCode(code), uint8(bits), lanes)
				q.ask("format_dtype "+dtypeNumbers(dt), dt.String())
				q.parse(dt.String())
				if err := dt.Validate(); err != nil {
					want := strings.TrimSuffix(err.Error(), ": "+dlpack.ErrDType.Error())
					if dt == 0 {
						want += "; it is not set: {kDLFloat, 32, 1} is float32" // C alone says how a type is written
					}
					q.ask("refuse_dtype "+dtypeNumbers(dt), want)
				} else if lanes < 3 {
					dtypes = append(dtypes, dt)
				}
			}
		}
	}
	bases := []string{"f16", "b2", "O", "U4", "float32"}
	for c := byte(' '); c <= '~'; c++ {
		bases = append(bases, string(c))
	}
	for name := range numpyNames(t) {
		bases = append(bases, name)
	}
	for _, base := range bases {
		for _, order := range []string{"", "<", ">", "=", "|", "!"} {
			q.parse(order + base)
		}
	}
	for _, text := range []string{"", "x", "x2", "handle", "handlex3", "float", "float032", "float32x", "float32x0",
		"float32x01", "float32x1", "float32_x2",
		"float32__x2", "float32x65536", "float32x+2", "float4_e2m1fn_x2", "boolx2", "bool8", "uint", "Float32", " float32",
		"float32 ", "cpu", "cuda", "cuda:",
		"cuda:01", "cuda:+1", "cuda:-1", "cuda:-0", "cuda:2147483648", "cpu:-2147483648", ":", ":0", "cpu:0:0", "5", "05",
		"-5:3", "é", "<é4"} {
		q.parse(text)
	}
	for device := int32(-2); device < 25; device++ {
		for _, id := range []int32{0, 1, -7, math.MaxInt32, math.MinInt32} {
			d := dlpack.Device{Type: dlpack.DeviceType(device), ID: id}
			q.ask(fmt.Sprint("format_device ", device, id), d.String())
			q.parse(d.String())
		}
	}
	for range 3000 { // names with one character changed, removed or added
		text := []byte(dtypes[r.IntN(len(dtypes))].String())
		switch at := r.IntN(len(text)); r.IntN(3) {
		case 0:
			text[at] = byte(32 + r.IntN(95))
		case 1:
			text = slices.Delete(text, at, at+1)
		default:
			text = slices.Insert(text, at, "0123456789x_bfiu:-"[r.IntN(18)])
		}
		q.parse(string(text))
	}

	layouts := []struct {
		shape, strides []int64
		offset         int64 // in elements
	}{
		{[]int64{}, nil, 0}, {[]int64{0}, nil, 0}, {[]int64{2, 0, 3}, nil, 0},
		{[]int64{1 << 50, 0}, nil, 0}, {[]int64{5}, nil, 0}, {[]int64{2, 3}, nil, 0},
		{[]int64{3, 2}, []int64{1, 3}, 0}, {[]int64{4}, []int64{-2}, 7}, {[]int64{2, 1, 2}, []int64{2, 9, 1}, 0},
		{[]int64{2, 2}, []int64{0, 1}, 1},
	}
	for _, dt := range dtypes {
		for _, flags := range []dlpack.Flags{0, dlpack.ReadOnly, dlpack.SubbytePadded} {
			for _, l := range layouts {
				padded := flags&dlpack.SubbytePadded != 0
				if l.strides != nil && !padded && dt.BitSize()%8 != 0 {
					continue
				}
				data := make([]byte, 8*dt.ItemSize()+8)
				for i := range data {
					data[i] = byte(r.Uint32())
				}
				if dt.Code() == dlpack.CodeBool {
					for i := range data {
						data[i] &= byte(1 + r.IntN(2)) // some are not valid
					}
				}
				spec := dlpack.Spec{DType: dt, Shape: l.shape, Strides: l.strides, ByteOffset: l.offset * int64(dt.ItemSize()),
					ReadOnly: flags&dlpack.ReadOnly != 0, Padded: padded}
				to := dtypes[r.IntN(len(dtypes))]
				for to.Lanes() != dt.Lanes() || dt.Code() == dlpack.CodeBool && to.Code() == dlpack.CodeBool {
					to = dtypes[r.IntN(len(dtypes))]
				}
				q.tensor(t, data, spec, dlpack.Device{Type: dlpack.CPU}, to)
				if flags == 0 && r.IntN(8) == 0 {
					q.tensor(t, data, spec, dlpack.Device{Type: dlpack.CUDA}, to)
				}
			}
		}
	}
	for _, shape := range [][]int64{{1000}, {1001}, {7, 150}, {6, 200}, {1, 2000}, {400, 3}, {3, 3, 3, 3, 3, 5}, {9, 9,
		9, 9}, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}} {
		n := int64(1)
		for _, size := range shape {
			n *= size
		}
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i)
		}
		q.tensor(t, data, dlpack.Spec{DType: dlpack.Int8, Shape: shape}, dlpack.Device{Type: dlpack.CPU}, dlpack.Float16)
	}
	floats := []float64{0, math.Copysign(0, -1), 1, -1.5, 1e5, 123456, 999999, 1e6, 1234567, 1e20, 1e21, 1e-4, 1e-5,
		0.1, 1.0 / 3, math.Inf(1), math.Inf(-1), math.NaN(),
		math.MaxFloat64, math.SmallestNonzeroFloat64, math.MaxFloat32, math.SmallestNonzeroFloat32, 9007199254740993, 5e-324}
	for e := -1080; e < 1024; e++ { // powers of two have neighbours at two distances
		floats = append(floats, math.Ldexp(1, e))
	}
	for range 2000 {
		floats = append(floats, math.Float64frombits(r.Uint64()), float64(math.Float32frombits(r.Uint32())))
	}
	for chunk := range slices.Chunk(floats, 100) {
		var singles, doubles []byte
		for _, f := range chunk {
			singles = binary.NativeEndian.AppendUint32(singles, math.Float32bits(float32(f)))
			doubles = binary.NativeEndian.AppendUint64(doubles, math.Float64bits(f))
		}
		shape := []int64{int64(len(chunk))}
		q.tensor(t, singles, dlpack.Spec{DType: dlpack.Float32, Shape: shape}, dlpack.Device{Type: dlpack.CPU}, dlpack.Complex64)
		q.tensor(t, doubles, dlpack.Spec{DType: dlpack.Float64, Shape: shape}, dlpack.Device{Type: dlpack.CPU}, dlpack.Complex128)
	}

	program := compile(t, "cc", "text.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	got := strings.Split(strings.TrimSuffix(run(t, sanitized, []byte(strings.Join(q.input, "\n")+"\n"), program), "\n"), "\n")
	require.Len(t, got, len(q.want))
	for i, want := range q.want {
		if got[i] != want && !sameNumbers(want, got[i]) {
			assert.Equal(t, want, got[i], "%.300s", q.input[i])
		}
	}
}

// sameNumbers reports whether two texts differ only in shortest decimals of the same length and the same value. A power
// of two may lie half way between two such decimals. Go then writes the upper decimal; C and NumPy write the even one.
func sameNumbers(a, b string) bool {
	const around = "[]() +i"
	isAround := func(r rune) bool { return strings.ContainsRune(around, r) }
	words, others := strings.FieldsFunc(a, isAround), strings.FieldsFunc(b, isAround)
	for i, word := range words {
		if len(others) != len(words) || len(others[i]) != len(word) {
			return false
		}
		x, err1 := strconv.ParseFloat(word, 32)
		y, err2 := strconv.ParseFloat(others[i], 32)
		if word != others[i] && (err1 != nil || err2 != nil || x != y) {
			return false
		}
	}
	return true
}
