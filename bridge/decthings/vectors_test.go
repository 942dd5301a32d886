package decthings_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

type manifest struct {
	vectors.Folder
	Tensors []tensorVector
	Varints []struct {
		Value json.Number
		Hex   string
	}
	Streams []struct {
		ID, Dialect, File string
		Tensors           []string
		EndsAt            []int `json:"ends_at"`
	}
	Malformed []struct {
		ID, Class, Expect, File string
		Dialects                []string
		Value                   struct{ Consumed int }
	}
	Ambiguous []struct {
		ID, File string
		Readings map[string]tensorVector
	}
	Rules []struct {
		ID    string
		Rules json.RawMessage
		Cases []struct {
			Type     string
			Shape    []int64
			Accepted bool
			Reason   string
		}
	}
	RulesJSON []struct {
		ID, JSON string
		Expect   json.RawMessage
	} `json:"rules_json"`
}

type tensorVector struct {
	ID       string
	Type     string
	TypeByte byte `json:"type_byte"`
	Shape    []json.Number
	Files    map[string]string
	DataHex  *string `json:"data_hex"`
	Pattern  *struct{ A, B, Mod, Bytes int }
	Items    []json.RawMessage
	Flags    []string
	Consumed int
}

func (v *tensorVector) overInt64() bool { return slices.Contains(v.Flags, "dim_over_int64") }

func (v *tensorVector) shape(t testing.TB) []int64 {
	shape := []int64{}
	for _, n := range v.Shape {
		dim := must.Do(n.Int64())(t)
		shape = append(shape, dim)
	}
	return shape
}

// view returns the View that decoding the tensor must return.
func (v *tensorVector) view(t testing.TB) decthings.View {
	what := must.Do(decthings.ParseType(v.Type))(t)
	if v.TypeByte != 0 {
		require.Equal(t, v.TypeByte, byte(what))
	}
	view := decthings.View{Type: what, Shape: v.shape(t)}
	switch {
	case v.DataHex != nil:
		view.Data = unhex(t, *v.DataHex)
	case v.Pattern != nil:
		view.Data = make([]byte, v.Pattern.Bytes)
		for i := range view.Data {
			view.Data[i] = byte((i*v.Pattern.A + v.Pattern.B) % v.Pattern.Mod)
		}
	default:
		view.Elements = &elements.Elements{Type: v.Type, Shape: view.Shape, Values: [][]byte{}}
		if what >= decthings.Image {
			view.Elements.Formats = []string{}
		}
		for _, item := range v.Items {
			view.Elements.Values = append(view.Elements.Values, v.item(t, item))
			if what >= decthings.Image {
				var media struct{ Format string }
				require.NoError(t, json.Unmarshal(item, &media))
				view.Elements.Formats = append(view.Elements.Formats, media.Format)
			}
		}
	}
	return view
}

func (v *tensorVector) item(t testing.TB, text json.RawMessage) []byte {
	var s string
	if json.Unmarshal(text, &s) == nil {
		if v.Type == "string" {
			return []byte(s)
		}
		return unhex(t, s)
	}
	var long struct {
		Hex    *string `json:"data_hex"`
		Unit   string  `json:"repeat_hex"`
		Len    int
		Data   string `json:"data_repeat_hex"`
		Length int    `json:"data_len"`
	}
	require.NoError(t, json.Unmarshal(text, &long))
	if long.Hex != nil {
		return unhex(t, *long.Hex)
	}
	unit, n := unhex(t, long.Unit+long.Data), long.Len+long.Length
	return bytes.Repeat(unit, n/len(unit)+1)[:n]
}

func unhex(t testing.TB, text string) []byte {
	return must.Do(hex.DecodeString(text))(t)
}

func manifests(t testing.TB) []manifest {
	all := vectors.Read[manifest](t, "decthings")
	require.Equal(t, 100, len(all[0].Tensors))
	require.Equal(t, 41, len(all[0].Malformed))
	require.Equal(t, 15, len(all[0].Varints))
	return all
}

func dialect(t testing.TB, name string) decthings.Dialect {
	d := must.Do(decthings.ParseDialect(name))(t)
	require.Equal(t, name, d.String())
	return d
}

// eachTensor runs a test for each tensor, in each dialect for which the tensor has a file.
func eachTensor(t *testing.T, test func(t *testing.T, v *tensorVector, data []byte, d decthings.Dialect)) {
	for _, m := range manifests(t) {
		for _, v := range m.Tensors {
			for name, file := range v.Files {
				t.Run(v.ID+"/"+name, func(t *testing.T) { test(t, &v, m.File(t, file), dialect(t, name)) })
			}
		}
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// within reports whether part lies in the memory of whole.
func within(whole, part []byte) bool {
	start, at := address(whole), address(part)
	return at >= start && at+uintptr(len(part)) <= start+uintptr(len(whole))
}

func TestVectorsAreReadAndWrittenByteForByte(t *testing.T) {
	eachTensor(t, func(t *testing.T, v *tensorVector, data []byte, d decthings.Dialect) {
		got, err := decthings.DecodeView(data, d)
		if v.overInt64() {
			require.ErrorIs(t, err, layout.ErrOverflow)
			return
		}
		require.NoError(t, err)
		want := v.view(t)
		assert.Equal(t, want.Type, got.Type)
		assert.Equal(t, want.Shape, append([]int64{}, got.Shape...))
		assert.True(t, bytes.Equal(want.Data, got.Data))
		assert.Equal(t, want.Elements, got.Elements)

		for _, view := range []decthings.View{want, got} {
			again := must.Do(view.Append([]byte("before"), d))(t)
			require.Equal(t, append([]byte("before"), data...), again)
		}
		if got.Elements == nil {
			assert.True(t, within(data, got.Data))
			return
		}
		for _, value := range got.Elements.Values {
			assert.True(t, within(data, value))
			assert.Equal(t, len(value), cap(value))
		}
		n := must.Do(decthings.SizeElements(got.Elements, d))(t)
		assert.Equal(t, len(data), n)
	})
}

func TestStreamsAreReadTensorByTensor(t *testing.T) {
	for _, m := range manifests(t) {
		for _, s := range m.Streams {
			t.Run(s.ID, func(t *testing.T) {
				data, d := m.File(t, s.File), dialect(t, s.Dialect)
				var view decthings.View
				at := 0
				var again []byte
				for i, id := range s.Tensors {
					n := must.Do(view.DecodeFirst(data[at:], d))(t)
					at += n
					assert.Equal(t, s.EndsAt[i], at)
					k := slices.IndexFunc(m.Tensors, func(v tensorVector) bool { return v.ID == id })
					want := m.Tensors[k].view(t)
					assert.Equal(t, want.Shape, append([]int64{}, view.Shape...))
					assert.True(t, bytes.Equal(want.Data, view.Data))
					assert.Equal(t, want.Elements, view.Elements)
					again = must.Do(view.Append(again, d))(t)
				}
				assert.Len(t, data, at)
				assert.True(t, bytes.Equal(data, again))
			})
		}
	}
}

// causes has the error for each class of malformed vectors.
var causes = map[string][]error{
	"truncated":         {decthings.ErrTruncated, decthings.ErrSection},
	"bad_type":          {decthings.ErrType},
	"bool_not_0_or_1":   {dlpack.ErrValue},
	"trailing_bytes":    {decthings.ErrTrailing},
	"nonminimal_varint": {decthings.ErrVarint},
	"overflow":          {layout.ErrOverflow, decthings.ErrTruncated},
	"bad_utf8":          {dlpack.ErrValue},
	"media_too_short":   {decthings.ErrFormat},
	"section_length":    {decthings.ErrSection, decthings.ErrTruncated},
	"dialect":           {decthings.ErrSection},
}

func TestMalformedVectorsAreRefusedWithTheirPlace(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Malformed {
			for _, name := range v.Dialects {
				t.Run(v.ID+"/"+name, func(t *testing.T) {
					data, d := m.File(t, v.File), dialect(t, name)
					_, err := decthings.DecodeView(data, d)
					var fault *elements.Error
					require.ErrorAs(t, err, &fault)
					assert.Contains(t, causes[v.Class], fault.Err, "%v", err)
					assert.GreaterOrEqual(t, fault.Offset, int64(0))
					assert.LessOrEqual(t, fault.Offset, int64(len(data)))
					var view decthings.View
					n, err := view.DecodeFirst(data, d)
					if v.Expect == "trailing" {
						require.NoError(t, err)
						assert.Equal(t, v.Value.Consumed, n)
						assert.Equal(t, int64(n), fault.Offset)
					} else {
						assert.ErrorIs(t, err, fault.Err)
					}
				})
			}
		}
	}
}

func TestAmbiguousBytesAreReadInTheDialectAskedFor(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Ambiguous {
			require.Len(t, v.Readings, 3)
			for name, reading := range v.Readings {
				t.Run(v.ID+"/"+name, func(t *testing.T) {
					data := m.File(t, v.File)
					got := must.Do(decthings.DecodeView(data, dialect(t, name)))(t)
					assert.Len(t, data, reading.Consumed)
					assert.Equal(t, reading.view(t).Elements, got.Elements)
				})
			}
		}
	}
}

func TestVarintsAreThoseOfTheVectors(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Varints {
			t.Run(v.Value.String(), func(t *testing.T) {
				data := append([]byte{byte(decthings.U8), 2, 0}, unhex(t, v.Hex)...)
				view, err := decthings.DecodeView(data, decthings.Doc)
				n, tooLarge := v.Value.Int64()
				if tooLarge != nil {
					assert.ErrorIs(t, err, layout.ErrOverflow)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, []int64{0, n}, view.Shape)
				again := must.Do(decthings.AppendHeader(nil, decthings.U8, []int64{0, n}))(t)
				assert.Equal(t, data, again)
				for cut := 3; cut < len(data); cut++ {
					must.Fail(decthings.DecodeView(data[:cut], decthings.Doc))(t, decthings.ErrTruncated)
				}
			})
		}
	}
}

func TestRulesOfTheVectorsAreChecked(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Rules {
			rules := must.Do(decthings.DecodeRules(v.Rules))(t)
			for _, c := range v.Cases {
				what := must.Do(decthings.ParseType(c.Type))(t)
				err := rules.Check(what, c.Shape)
				assert.Equal(t, c.Accepted, err == nil, "%s %s%v: %v", v.ID, c.Type, c.Shape, err)
				assert.Equal(t, c.Reason == "data_type", errors.Is(err, decthings.ErrRuleType), "%v", err)
				assert.Equal(t, c.Reason == "shape", errors.Is(err, decthings.ErrRuleShape), "%v", err)
			}
		}
		for _, v := range m.RulesJSON {
			t.Run(v.ID, func(t *testing.T) {
				rules, err := decthings.DecodeRules([]byte(v.JSON))
				if string(v.Expect) == `"error"` {
					require.ErrorIs(t, err, decthings.ErrRules)
					return
				}
				require.NoError(t, err)
				text := must.Do(json.Marshal(rules))(t)
				assert.JSONEq(t, string(v.Expect), string(text))
			})
		}
	}
}

func TestRanksOf253AndMoreAreOneByte(t *testing.T) {
	shape := slices.Repeat([]int64{1}, math.MaxUint8)
	header := must.Do(decthings.AppendHeader(nil, decthings.U8, shape))(t)
	assert.Equal(t, []byte{7, 255, 1}, header[:3])
	view := must.Do(decthings.DecodeView(append(header, 9), decthings.Doc))(t)
	assert.Equal(t, shape, view.Shape)
	must.Fail(decthings.AppendHeader(nil, decthings.U8, append(shape, 1)))(t, decthings.ErrRank)
}
