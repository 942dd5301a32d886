//go:build cgo

package formats

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/decthings/decthingstest"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
)

// Decthings is the row of package decthings.
var Decthings = add(Format{
	Folder: "bridge/decthings",
	Title:  "Decthings",
	Encode: func(values ...Named) ([]byte, error) {
		if e := values[0].Elements; e != nil {
			return decthings.AppendElements(nil, e, decthings.Doc)
		}
		return decthings.AppendTensor(nil, values[0].Tensor)
	},
	Decode: func(data []byte) ([]Named, error) {
		v, err := decthings.Decode(data, decthings.Writable(), nil)
		return []Named{{Tensor: v.Tensor, Elements: v.Elements}}, err
	},
	DecodeTo: func(sink elements.Sink, data []byte) error {
		_, err := decthings.DecodeViewTo(sink, data, decthings.Doc)
		return err
	},
	ReadTensor:  func(r io.Reader, size int64) (*dlpack.Tensor, error) { return decthings.ReadTensor(r, size) },
	WriteTensor: decthings.WriteTensor,
	Header: func(dtype dlpack.DataType, shape []int64) ([]byte, error) {
		what, err := decthings.TypeOf(dtype)
		if err != nil {
			return nil, err
		}
		return decthings.AppendHeader(nil, what, shape)
	},
	NoDType:    elements.ErrDType,
	NoRank:     decthings.ErrRank,
	NoElements: decthings.ErrType,
	Writers:    []Writer{{"AppendTensor", decthings.AppendTensor, decthings.SizeTensor}},
	Others:     []Other{writeTensor(decthings.WriteTensor, decthings.AppendTensor)},
	Readers: []Reader{
		{"DecodeFrom", func(data *dlpack.Tensor, align int) (Value, error) {
			v, err := decthings.DecodeFrom(data, alignDecthings(align))
			return Value{v.Tensor, v.Elements, v.Copied}, err
		}},
		{"DecodeFirstFrom", func(data *dlpack.Tensor, align int) (Value, error) {
			v, _, err := decthings.DecodeFirstFrom(data, alignDecthings(align))
			return Value{v.Tensor, v.Elements, v.Copied}, err
		}},
	},
	Payloads: []Payload{
		{"AppendElements", func(dst, data []byte) ([]byte, error) {
			return decthings.AppendElements(dst, &elements.Elements{Type: "binary", Shape: []int64{1}, Values: [][]byte{data}}, decthings.Doc)
		}},
		{"View.Append", func(dst, data []byte) ([]byte, error) {
			v := decthings.View{Type: decthings.U8, Shape: []int64{int64(len(data))}, Data: data}
			return v.Append(dst, decthings.Doc)
		}},
	},
	Nils: []Nil{
		{"AppendElements", func() error { _, err := decthings.AppendElements(nil, nil, decthings.Doc); return err }, elements.ErrElements},
		{"SizeElements", func() error { _, err := decthings.SizeElements(nil, decthings.Doc); return err }, elements.ErrElements},
		{"Rules.Check", func() error { return (*decthings.Rules)(nil).Check(decthings.F32, nil) }, decthings.ErrRules},
		{"Value.Shape", func() error { (*decthings.Value)(nil).Shape(); return nil }, nil},
		{"Value.Close", (*decthings.Value)(nil).Close, nil},
	},
	Hostile: decthingstest.Tensors,
	Measure: measureDecthings,
	InC: &InC{
		Commands: []Command{
			{"decthings", 0, 0}, {"decthings", 1, 0}, {"decthings", 2, 0},
			{"decthings_batch", 0, 0}, {"decthings_batch", 1, 0}, {"decthings_batch", 2, 0},
		},
		Seeds: func(f func(data []byte, at, size, times uint16)) {
			for kind := range byte(17) {
				f(decthingstest.Long(kind, 20_000, "\x01x"), 0, 0, 0)
				f(decthingstest.Sectioned(kind, 20_000, "\x00"), 0, 0, 0)
			}
		},
		Fixed:   map[string][]byte{"numbers of 8 bytes that are not aligned": decthingstest.Long(byte(decthings.F64), 100_000, "12345678")},
		Vectors: decthingsVectors,
		DecodeView: func(data []byte, options uint64) (View, error) {
			v, err := decthings.DecodeView(data, decthings.Dialect(options))
			return viewOfDecthings(&v), err
		},
		DecodeFirst: func(data []byte, options uint64) (View, int, error) {
			var v decthings.View
			n, err := v.DecodeFirst(data, decthings.Dialect(options))
			return viewOfDecthings(&v), n, err
		},
	},
})

func viewOfDecthings(v *decthings.View) View {
	return View{v.Type.DataType(), v.Shape, v.Data, true, v.Elements}
}

func decthingsVectors(t testing.TB) (all []Vector) {
	type manifest struct {
		vectors.Folder
		Tensors []struct {
			ID    string
			Files map[string]string
			Flags []string
		}
		Streams []struct {
			ID, Dialect, File string
			EndsAt            []int `json:"ends_at"`
		}
		Malformed []struct {
			ID, Expect, File string
			Dialects         []string
			Value            struct{ Consumed int }
		}
		Ambiguous []struct {
			ID, File string
			Readings map[string]json.RawMessage
		}
	}
	for _, m := range vectors.Read[manifest](t, "decthings") {
		add := func(id, file, dialect string, v Vector) {
			d, err := decthings.ParseDialect(dialect)
			require.NoError(t, err)
			v.Name, v.File, v.Options = id+" "+dialect, filepath.Join(m.Dir(), file), uint64(d)
			if !v.Refused && v.Counts == nil {
				v.Written = []string{hex.EncodeToString(m.File(t, file))}
			}
			all = append(all, v)
		}
		for _, v := range m.Tensors {
			for dialect, file := range v.Files {
				add(v.ID, file, dialect, Vector{Refused: slices.Contains(v.Flags, "dim_over_int64")})
			}
		}
		for _, v := range m.Ambiguous {
			for dialect := range v.Readings {
				add(v.ID, v.File, dialect, Vector{})
			}
		}
		for _, v := range m.Malformed {
			for _, dialect := range v.Dialects {
				add(v.ID, v.File, dialect, Vector{Refused: true})
				if v.Expect == "trailing" {
					add(v.ID, v.File, dialect, Vector{Counts: []int{1}, Ends: []int{v.Value.Consumed}})
				}
			}
		}
		for _, v := range m.Streams {
			add(v.ID, v.File, v.Dialect, Vector{Counts: []int{1, 2, 1000}, Ends: v.EndsAt})
		}
	}
	return all
}

func alignDecthings(n int) decthings.DecodeOption {
	if n == 0 {
		return nil
	}
	return decthings.Align(n)
}

func measureDecthings(t testing.TB, data []byte, _ bool) {
	row, err := dlpack.FromSlice(data)
	require.NoError(t, err)
	defer row.Close()
	for _, dialect := range []decthings.Dialect{decthings.Doc, decthings.Py004, decthings.Rs015} {
		for _, options := range [][]decthings.DecodeOption{{decthings.In(dialect)}, {decthings.In(dialect), decthings.Align(64)}} {
			for _, read := range []func() (decthings.Value, int, error){
				func() (decthings.Value, int, error) { return decthings.DecodeFirst(data, options...) },
				func() (decthings.Value, int, error) { return decthings.DecodeFirstFrom(row, options...) },
			} {
				bound := uint64(amplification.Variable)
				value, n, err := read()
				if err != nil {
					n = len(data)
				} else if value.Tensor != nil {
					bound = amplification.Fixed
				}
				require.NoError(t, value.Close())
				amplification.Require(t, n, bound, 0, func() func() {
					value, _, _ := read()
					return func() { value.Close() }
				})
			}
		}
		r := decthings.NewReader(bytes.NewReader(data), dialect)
		amplification.Require(t, len(data), 5, 0, func() func() {
			r.Next()
			return nil
		})
	}
}
