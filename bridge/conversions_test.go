//go:build cgo

package bridge_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// These tests read the table "What each format supports" of README.md in this folder, and check each pair of formats by converting
// a tensor from one to the other.

// A column is a format of the table.
type column struct {
	name  string
	cross func(t *dlpack.Tensor) (*dlpack.Tensor, error) // encodes a tensor and decodes it
	row   *formats.Format
}

var columns = append(columnsOf(formats.All), column{"DLPack", overDLPack, new(formats.Format)})

func columnsOf(all []*formats.Format) (columns []column) {
	for _, f := range all {
		columns = append(columns, column{f.Title, func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
			data, err := f.Encode(formats.Named{Tensor: t})
			if err != nil {
				return nil, err
			}
			values, err := f.Decode(data)
			if err != nil {
				return nil, err
			}
			return values[0].Tensor, nil
		}, f})
	}
	return columns
}

func overDLPack(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	m, err := t.Export()
	if err != nil {
		return nil, err
	}
	return dlpack.Import(m)
}

// readTable returns the cells of the README's table, by row and format.
func readTable(t *testing.T) map[string]map[string]string {
	text := must.Do(os.ReadFile("README.md"))(t)
	_, section, found := strings.Cut(string(text), "## What each format supports\n")
	require.True(t, found)
	table := map[string]map[string]string{}
	var head []string
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "|") {
			if head != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if head == nil {
			head = cells
			continue
		}
		row := map[string]string{}
		for i, cell := range cells {
			row[head[i]] = cell
		}
		table[cells[0]] = row
	}
	for _, f := range columns {
		require.Contains(t, head, f.name)
	}
	return table
}

const (
	common    = "bool, int8 to int64, uint8 to uint64, float32, float64"
	wide      = "float16, complex64, complex128"
	small     = "int2, int4, uint2, uint4, float4_e2m1fn"
	uncommon  = "float6, complex32, handles, lanes"
	quantised = "quantised numbers"
	media     = "binaries, images, audio, video"
	variants  = "resources, variants"
)

// rowOf returns the row of the table for a data type.
func rowOf(dt dlpack.DataType) string {
	name := dt.String()
	switch {
	case dt.Lanes() > 1, dt == dlpack.Complex32, strings.HasPrefix(name, "float6_"), strings.HasPrefix(name, "handle"):
		return uncommon
	case dt.IsSubByte():
		return small
	case dt == dlpack.BFloat16:
		return "bfloat16"
	case strings.HasPrefix(name, "float8_"):
		return "float8"
	case slices.Contains(strings.Split(wide, ", "), name):
		return wide
	}
	return common
}

// says reports whether a cell means that the format has the data type.
func says(t *testing.T, cell string, dt dlpack.DataType) bool {
	if list, ok := strings.CutPrefix(cell, "all but "); ok {
		_, kind, _ := strings.Cut(dt.String(), "_")
		return !slices.Contains(strings.Split(list, ", "), kind)
	}
	switch cell {
	case "yes", "yes, a byte for each", "yes, packed or a byte for each", "by an extension attribute":
		return true
	case "refused":
		return false
	}
	require.Failf(t, "a cell that says neither yes nor no", "%s: %q", dt, cell)
	return false
}

// dataTypes returns all data types of DLPack, with one lane and with several.
func dataTypes() (all []dlpack.DataType) {
	for code := range dlpack.TypeCode(math.MaxUint8) {
		for bits := range 256 {
			for _, lanes := range []uint16{1, 2, 4} {
				if dt := dlpack.MakeDataType(code, uint8(bits), lanes); dt.Validate() == nil {
					all = append(all, dt)
				}
			}
		}
	}
	return all
}

// sample returns a tensor of 2 by 3 elements of a type with varied bits.
func sample(t *testing.T, dt dlpack.DataType) *dlpack.Tensor {
	n := must.Do(dt.NumBytes(6, false))(t)
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*37 + 1)
		if dt.Code() == dlpack.CodeBool {
			data[i] &= 1
		}
	}
	if rest := 6 * dt.BitSize() % 8; rest > 0 {
		data[n-1] &= 1<<rest - 1 // the bits after the last element
	}
	return must.Do(dlpack.FromBytes(data, dlpack.Spec{DType: dt, Shape: []int64{2, 3}}))(t)
}

// bytesOf returns the elements of a tensor in row-major order. Elements of less than a byte take a byte each.
func bytesOf(t *testing.T, x *dlpack.Tensor) []byte {
	data := must.Do(x.AppendBytes(nil))(t)
	size := x.DType().BitSize()
	if size%8 == 0 {
		return data
	}
	each := make([]byte, x.NumElements()*int64((size+7)/8))
	if x.Flags()&dlpack.SubbytePadded != 0 {
		require.Len(t, data, len(each))
		for i, b := range data {
			each[i] = b
			if (i+1)%((size+7)/8) == 0 {
				each[i] &= 1<<(size%8) - 1
			}
		}
		return each
	}
	for i := range int(x.NumElements()) {
		for k := range size {
			at := i*size + k
			each[i*((size+7)/8)+k/8] |= data[at/8] >> (at % 8) & 1 << (k % 8)
		}
	}
	return each
}

func TestEveryDataTypeGoesFromEachFormatToEachOtherOrIsRefused(t *testing.T) {
	table := readTable(t)
	types := dataTypes()
	require.Greater(t, len(types), 100)
	for _, dt := range types {
		for _, from := range columns {
			for _, to := range columns {
				if from.name == to.name {
					continue
				}
				t.Run(fmt.Sprintf("%v/%s to %s", dt, from.name, to.name), func(t *testing.T) {
					dlpacktest.CheckLeaks(t)
					x := sample(t, dt)
					defer x.Close()
					want := bytesOf(t, x)
					for _, f := range []column{from, to} {
						y, err := f.cross(x)
						if !says(t, table[rowOf(dt)][f.name], dt) {
							require.ErrorIs(t, err, f.row.NoDType)
							require.ErrorContains(t, err, dt.String())
							return
						}
						require.NoError(t, err)
						defer y.Close()
						assert.Equal(t, dt, y.DType())
						assert.Equal(t, x.Shape(), y.Shape())
						assert.Equal(t, want, bytesOf(t, y))
						if table[rowOf(dt)][f.name] == "yes, a byte for each" {
							assert.NotZero(t, y.Flags()&dlpack.SubbytePadded)
						}
						x = y
					}
				})
			}
		}
	}
}

func TestTENSSaysByItsAttributeWhatTheTableSays(t *testing.T) {
	table := readTable(t)
	for _, dt := range dataTypes() {
		x := sample(t, dt)
		msg, _, err := bridge.Encode([]*dlpack.Tensor{x})
		require.NoError(t, err)
		label := must.Do(msg.DecodeLabel())(t)
		extended := table[rowOf(dt)]["TENS"] == "by an extension attribute"
		assert.Equal(t, extended, label.Tensors[0].DType == 'V', "%v", dt)
		x.Close()
	}
}

// A format returns an error for elements of a type that it does not have. If two formats have the type, one call
// converts the elements.
func TestElementsGoFromEachFormatToEachOtherOrAreRefused(t *testing.T) {
	table := readTable(t)
	rows := map[string]map[string]int{ // the size of an element
		"strings": {"string": 4},
		media:     {"binary": 4, "image": 4, "audio": 4, "video": 4},
		quantised: {"qint8": 1, "quint8": 1, "qint16": 2, "quint16": 2, "qint32": 4},
		variants:  {"resource": 4, "variant": 4},
	}
	for row, types := range rows {
		for name, size := range types {
			t.Run(name, func(t *testing.T) {
				e := &elements.Elements{Type: name, Shape: []int64{2}, Values: [][]byte{[]byte("0123")[:size], []byte("4567")[:size]}}
				if name == "image" || name == "audio" || name == "video" {
					e.Formats = []string{"png", "mp3"}
				}
				had := 0
				for _, f := range columns {
					cell := table[row][f.name]
					if f.row.NoElements == nil {
						assert.Equal(t, "–", cell)
						continue
					}
					data, err := f.row.Encode(formats.Named{Elements: e})
					if cell == "–" {
						require.ErrorIs(t, err, f.row.NoElements)
						continue
					}
					require.Contains(t, cell, "as `elements.Elements`")
					require.NoError(t, err)
					values := must.Do(f.row.Decode(data))(t)
					require.Equal(t, e, values[0].Elements)
					e = values[0].Elements // for the next format
					had++
				}
				assert.NotZero(t, had)
			})
		}
	}
}

func TestRanksAreThoseOfTheTable(t *testing.T) {
	table := readTable(t)
	for _, f := range columns {
		t.Run(f.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			most := dlpack.MaxRank
			if number, ok := strings.CutPrefix(table["rank"][f.name], "at most "); ok {
				most = must.Do(strconv.Atoi(number))(t)
			} else {
				require.Equal(t, "any", table["rank"][f.name])
			}
			for rank := range dlpack.MaxRank + 1 {
				x := must.Do(dlpack.New(dlpack.Int16, slices.Repeat([]int64{1}, rank)...))(t)
				y, err := f.cross(x)
				if rank > most {
					require.ErrorIs(t, err, f.row.NoRank, "%d", rank)
				} else {
					require.NoError(t, err, "%d", rank)
					assert.Equal(t, rank, y.Rank())
					require.NoError(t, y.Close())
				}
				require.NoError(t, x.Close())
			}
			must.Fail(dlpack.New(dlpack.Int16, slices.Repeat([]int64{1}, dlpack.MaxRank+1)...))(t, dlpack.ErrLayout)
		})
	}
}

func TestLayoutsGoFromEachFormatToEachOther(t *testing.T) {
	table := readTable(t)
	const packed, loose = "permuted and reversed layouts", "gaps, broadcasts"
	views := []struct {
		name, row string
		view      func(l *layout.Layout) error
	}{
		{"permuted", packed, func(l *layout.Layout) error { return l.Transpose(2, 0, 1) }},
		{"reversed", packed, func(l *layout.Layout) error { return l.Flip(1) }},
		{"gaps", loose, func(l *layout.Layout) error { return l.Slice(layout.All(), layout.All().By(2)) }},
		{"broadcast", loose, func(l *layout.Layout) error { return l.BroadcastTo(5, 2, 3, 4) }},
	}
	for _, v := range views {
		for _, from := range columns {
			for _, to := range columns {
				t.Run(fmt.Sprintf("%s/%s to %s", v.name, from.name, to.name), func(t *testing.T) {
					dlpacktest.CheckLeaks(t)
					whole := must.Own(dlpack.FromSlice(counting(24), 2, 3, 4))(t)
					x := must.Own(whole.Apply(v.view))(t)
					want := bytesOf(t, x)
					for _, f := range []column{from, to} {
						y := must.Do(f.cross(x))(t)
						defer y.Close()
						assert.Equal(t, x.Shape(), y.Shape())
						assert.Equal(t, want, bytesOf(t, y))
						switch cell := table[v.row][f.name]; cell {
						case "as they are":
							assert.Equal(t, x.Strides(), y.Strides())
						case "compacted", "written row-major":
							assert.True(t, y.IsContiguous())
						default:
							require.Fail(t, "no such cell", cell)
						}
						x = y
					}
				})
			}
		}
	}
}

func counting(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(i)
	}
	return x
}

// If the elements are aligned in both formats, a conversion copies them once, to its output.
func TestATensorOfAFrameIsWrittenFromTheFrame(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]float64{1, 2, 3}, 3))(t)
	for _, from := range formats.All {
		for _, to := range formats.All {
			if from.Header == nil || to.Header == nil || from == to {
				continue
			}
			t.Run(from.Name()+" to "+to.Name(), func(t *testing.T) {
				data := must.Do(from.Encode(formats.Named{Tensor: x}))(t)
				values := must.Do(from.Decode(data))(t)
				defer values[0].Tensor.Close()
				msg, report, err := bridge.Encode([]*dlpack.Tensor{values[0].Tensor})
				require.NoError(t, err)
				assert.Equal(t, []string{""}, report.Copied)
				assert.Same(t, unsafe.SliceData(data[len(data)-24:]), unsafe.SliceData(msg.Parts[0]))
				header := must.Do(to.Header(x.DType(), x.Shape()))(t)
				values = must.Do(to.Decode(append(header, msg.Parts[0]...)))(t)
				defer values[0].Tensor.Close()
				got := must.Do(dlpack.UnsafeValues[float64](values[0].Tensor))(t)
				assert.Equal(t, []float64{1, 2, 3}, got)
			})
		}
	}
}
