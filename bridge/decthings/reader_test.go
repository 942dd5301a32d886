package decthings_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func ExampleReader() {
	r := decthings.NewReader(strings.NewReader("\x07\x01\x03abc\x0b\x00\x05hello"), decthings.Doc)
	for {
		tensor, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		v, err := decthings.DecodeView(tensor, decthings.Doc)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Type, v.Shape)
	}
	// Output:
	// u8 [3]
	// string []
}

// readAll returns the tensors of a stream, and the error after the last one.
func readAll(in io.Reader, d decthings.Dialect) (tensors [][]byte, err error) {
	for r := decthings.NewReader(in, d); ; {
		tensor, err := r.Next()
		if err != nil {
			if _, again := r.Next(); again != err {
				return tensors, fmt.Errorf("%w, and then %w", err, again)
			}
			return tensors, err
		}
		tensors = append(tensors, tensor)
	}
}

func TestReaderSplitsAnyStreamOfTheVectors(t *testing.T) {
	ways := map[string]func(io.Reader) io.Reader{
		"whole":          func(r io.Reader) io.Reader { return r },
		"by bytes":       iotest.OneByteReader,
		"by halves":      iotest.HalfReader,
		"with its error": iotest.DataErrReader,
	}
	for name, d := range map[string]decthings.Dialect{"doc": decthings.Doc, "py004": decthings.Py004, "rs015": decthings.Rs015} {
		var stream []byte
		var want [][]byte
		for _, m := range manifests(t) {
			for _, v := range m.Tensors {
				if file, ok := v.Files[name]; ok && !v.overInt64() {
					want = append(want, m.File(t, file))
					stream = append(stream, want[len(want)-1]...)
				}
			}
		}
		for way, through := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				got, err := readAll(through(bytes.NewReader(stream)), d)
				require.Equal(t, io.EOF, err)
				require.Equal(t, len(want), len(got))
				for i := range want {
					require.True(t, bytes.Equal(want[i], got[i]))
					v := must.Do(decthings.DecodeView(got[i], d))(t)
					if len(v.Data) > 0 {
						require.Zero(t, address(v.Data)%64)
					}
				}
			})
		}
	}
}

func TestReaderSaysWhereAStreamIsCutShort(t *testing.T) {
	for _, m := range manifests(t) {
		for _, s := range m.Streams {
			data, d := m.File(t, s.File), dialect(t, s.Dialect)
			ends := append([]int{0}, s.EndsAt...)
			for cut := range data {
				whole := 0
				for whole+1 < len(ends) && ends[whole+1] <= cut {
					whole++
				}
				got, err := readAll(bytes.NewReader(data[:cut]), d)
				assert.Equal(t, whole, len(got))
				if ends[whole] == cut {
					require.Equal(t, io.EOF, err)
					continue
				}
				var fault *elements.Error
				require.ErrorAs(t, err, &fault)
				assert.Equal(t, decthings.ErrTruncated, fault.Err)
				assert.True(t, fault.Offset >= int64(ends[whole]) && fault.Offset <= int64(cut), "%v", err)
			}
		}
	}
}

func TestReaderRefusesHeadersAndLengths(t *testing.T) {
	before := "\x07\x00x\x07\x00x" // 6 bytes of tensors
	tests := []struct {
		name, data string
		d          decthings.Dialect
		want       error
		offset     int64
	}{
		{"no type", "\x00\x00", decthings.Doc, decthings.ErrType, 6},
		{"no type, and dimensions to come", "\x11\xff", decthings.Doc, decthings.ErrType, 6},
		{"a long varint", "\x07\x01\xfd\x00\x01", decthings.Doc, decthings.ErrVarint, 8},
		{"a dimension of 64 bits", "\x07\x01\xff\x80\x00\x00\x00\x00\x00\x00\x00", decthings.Doc, layout.ErrOverflow, 8},
		{"elements of 64 bits", "\x02\x01\xff\x20\x00\x00\x00\x00\x00\x00\x00", decthings.Doc, decthings.ErrTruncated, 17},
		{"a long length", "\x0b\x00\xfd\x00\x01", decthings.Doc, decthings.ErrVarint, 8},
		{"a long section", "\x0b\x00\xfd\x00\x01", decthings.Py004, decthings.ErrVarint, 8},
		{"a length cut short", "\x0b\x01\x02\x01x\xfd\x00", decthings.Doc, decthings.ErrTruncated, 11},
		{"a dialect", "", 3, decthings.ErrDialect, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := readAll(strings.NewReader(before+test.data), test.d)
			require.ErrorIs(t, err, test.want)
			if test.offset >= 0 {
				var fault *elements.Error
				require.ErrorAs(t, err, &fault)
				assert.Equal(t, test.offset, fault.Offset)
			}
		})
	}
}

func TestReaderOfNothingIsRefused(t *testing.T) {
	for name, r := range map[string]*decthings.Reader{
		"nil":                  nil,
		"zero":                 {},
		"without an io.Reader": decthings.NewReader(nil, decthings.Doc),
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				must.Fail(r.Next())(t, elements.ErrNil)
			}
		})
	}
}

func TestReaderPassesOnErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, data := range []string{"", "\x07", "\x07\x02", "\x07\x01\x05", "\x07\x01\x05ab", "\x0b\x00", "\x0b\x00\x05", "\x0b\x00\xfd\x01"} {
		_, err := readAll(io.MultiReader(strings.NewReader("\x07\x00x"+data), iotest.ErrReader(broken)), decthings.Doc)
		assert.ErrorIs(t, err, broken, "%q", data)
		assert.ErrorContains(t, err, "byte 3", "%q", data)
	}
}

// An io.Reader that returns io.ErrUnexpectedEOF, as for a truncated compressed stream, is not at the end of the stream.
func TestReaderTellsAnUnexpectedEndFromAnEnd(t *testing.T) {
	for _, data := range []string{"\x07\x01\x05ab", "\x0b\x00\x05ab"} {
		_, err := readAll(io.MultiReader(strings.NewReader(data), iotest.ErrReader(io.ErrUnexpectedEOF)), decthings.Doc)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", data)
		assert.NotErrorIs(t, err, decthings.ErrTruncated, "%q", data)
		_, err = readAll(strings.NewReader(data), decthings.Doc)
		assert.ErrorIs(t, err, decthings.ErrTruncated, "%q", data)
	}
}

// panicker is an io.Reader that panics in the first call.
type panicker struct{ panicked bool }

func (p *panicker) Read([]byte) (int, error) {
	if !p.panicked {
		p.panicked = true
		panic("no more")
	}
	return 0, io.EOF
}

func TestReaderEndsWithAPanic(t *testing.T) {
	r := decthings.NewReader(io.MultiReader(strings.NewReader("\x0b\x00\x05ab"), &panicker{}, strings.NewReader("cde\x07\x00x")), decthings.Doc)
	assert.PanicsWithValue(t, "no more", func() { r.Next() })
	for range 2 {
		_, err := r.Next()
		assert.ErrorContains(t, err, "has not returned")
	}
}

// wrongCount is an io.Reader that returns its data, and then a count although it has written nothing.
type wrongCount struct {
	data  []byte
	count int
}

func (r *wrongCount) Read(data []byte) (int, error) {
	n := copy(data, r.data)
	if r.data = r.data[n:]; n == 0 {
		return r.count, nil
	}
	return n, nil
}

func TestReaderRefusesCountsThatAReaderMustNotReturn(t *testing.T) {
	header := must.Do(decthings.AppendHeader(nil, decthings.U8, []int64{100_000}))(t)
	for _, sent := range []int{0, len(header), 50_000, 99_000} { // small reads go through a buffer, large ones do not
		for _, count := range []int{-1, math.MinInt, 1 << 20, math.MaxInt} {
			stream := append(header[:len(header):len(header)], make([]byte, 100_000)...)
			in := decthings.NewReader(&wrongCount{stream[:sent], count}, decthings.Doc)
			_, err := in.Next()
			require.ErrorContains(t, err, fmt.Sprintf("the io.Reader returned %d, but was asked for ", count))
			_, again := in.Next()
			require.Equal(t, err, again)
		}
	}
}

// An io.Reader may return an error together with the last bytes, and not again.
func TestReaderKeepsAnErrorThatComesWithTheLastBytes(t *testing.T) {
	broken := errors.New("broken")
	for _, size := range []int{100, 1 << 16, 1 << 20} {
		data := must.Do((&decthings.View{Type: decthings.U8, Shape: []int64{int64(size)}, Data: make([]byte, size)}).Append(nil, decthings.Doc))(t)
		tensors, err := readAll(&once{data: data, err: broken}, decthings.Doc)
		assert.ErrorIs(t, err, broken)
		assert.LessOrEqual(t, len(tensors), 1)
	}
}

// once is an io.Reader that returns an error with its last bytes, and io.EOF from then on.
type once struct {
	data []byte
	err  error
}

func (o *once) Read(p []byte) (int, error) {
	n := copy(p, o.data)
	if o.data = o.data[n:]; len(o.data) > 0 {
		return n, nil
	}
	err := o.err
	o.err = io.EOF
	return n, err
}

// idle is an io.Reader that returns neither bytes nor an error.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReaderDoesNotWaitForEver(t *testing.T) {
	for _, data := range []string{"", "\x07", "\x07\x01\x05", "\x07\x01\x05ab", "\x0b\x00\x05ab"} {
		_, err := readAll(io.MultiReader(strings.NewReader(data), idle{}), decthings.Doc)
		assert.ErrorIs(t, err, io.ErrNoProgress, "%q", data)
	}
}

func TestReaderWaitsForNoMoreThanTheTensor(t *testing.T) {
	for _, tensor := range []string{"\x07\x00x", "\x01\x01\x00", "\x0b\x02\x01\x01\x05hello"} {
		in, out := io.Pipe()
		r := decthings.NewReader(in, decthings.Doc)
		for range 2 {
			go out.Write([]byte(tensor)) // and nothing after it
			got := must.Do(r.Next())(t)
			require.Equal(t, tensor, string(got))
		}
		in.Close()
	}
}

func TestReaderTakesNoMoreMemoryThanHasCome(t *testing.T) {
	huge := []byte{255, 0, 0, 1, 0, 0, 0, 0, 0} // 2^40
	const come = 1 << 20
	heads := map[string][]byte{
		"numbers":   append([]byte{7, 1}, huge...),
		"a section": append([]byte{11, 0}, huge...),
		"strings":   append([]byte{11, 1}, huge...),
	}
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			d := decthings.Doc
			if name == "a section" {
				d = decthings.Py004
			}
			var err error
			took := allocated(func() {
				_, err = decthings.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(make([]byte, come))), d).Next()
			})
			assert.ErrorIs(t, err, decthings.ErrTruncated)
			assert.Less(t, took, uint64(8*come))
		})
	}
}

// FuzzReader: a Reader splits a stream as DecodeFirst splits a buffer, and returns an error at the same byte.
func FuzzReader(f *testing.F) {
	for _, m := range manifests(f)[:1] {
		for _, s := range m.Streams {
			f.Add(m.File(f, s.File), byte(dialect(f, s.Dialect)))
		}
		for _, v := range m.Malformed {
			for _, name := range v.Dialects {
				f.Add(m.File(f, v.File), byte(dialect(f, name)))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, d byte) {
		dialect := decthings.Dialect(d % 3)
		tensors, end := readAll(bytes.NewReader(data), dialect)
		at := 0
		for _, tensor := range tensors {
			require.True(t, bytes.Equal(data[at:at+len(tensor)], tensor))
			var v decthings.View
			if n, err := v.DecodeFirst(data[at:], dialect); err == nil {
				require.Equal(t, n, len(tensor))
				require.True(t, len(v.Data) == 0 || address(tensor[len(tensor)-len(v.Data):])%64 == 0)
			} else {
				_, err = decthings.DecodeView(tensor, dialect)
				require.Error(t, err)
			}
			at += len(tensor)
		}
		if end == io.EOF {
			require.Equal(t, len(data), at)
			return
		}
		var fault *elements.Error
		require.ErrorAs(t, end, &fault)
		require.True(t, fault.Offset >= int64(at) && fault.Offset <= int64(len(data)))
		_, err := new(decthings.View).DecodeFirst(data[at:], dialect)
		require.Error(t, err)
	})
}
