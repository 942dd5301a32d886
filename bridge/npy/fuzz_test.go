//go:build cgo

package npy_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// seeds adds small files of all kinds to a fuzz test.
func seeds(f *testing.F, add func(data []byte)) {
	for _, m := range manifests(f) {
		for _, a := range m.Arrays {
			add(m.File(f, a.File))
		}
		for _, a := range m.Refused {
			add(m.File(f, a.File))
		}
		for _, a := range m.Archives {
			add(m.File(f, a.File))
		}
	}
	content := string(file(dict("'<f4'", "(3,)"), 12))
	small, _, _ := archive(part{name: "x.npy", content: content, extra: "\x01\x00\x00\x00"})
	add(small)
	within, _, _ := nested()
	add(within)
	add(file("{'shape': (2, 3), 'fortran_order': True, 'descr': '<i2'}", 12))
	add(file2(2, 40, "{'shape':(),'descr':'>c16','fortran_order':False}", 12))
}

// parsed returns the arrays of an npy or npz file. It returns none if the file is refused, and checks that the error
// names a byte of the file.
func parsed(t *testing.T, data []byte) []npy.View {
	parse := npy.DecodeFile
	if bytes.HasPrefix(data, []byte("PK")) {
		parse = npy.DecodeZip
	}
	file, err := parse(data)
	var fail *elements.Error
	if errors.As(err, &fail) {
		if fail.Offset < 0 || fail.Offset > int64(len(data)) || len(err.Error()) > 1000 {
			t.Fatalf("%v, in %d bytes", err, len(data))
		}
		return nil
	}
	require.NoError(t, err)
	return file.Tensors
}

// FuzzDecodeFile: a file is refused, or its arrays lie within its bytes. Each array becomes a tensor or is refused.
func FuzzDecodeFile(f *testing.F) {
	seeds(f, func(data []byte) { f.Add(data) })
	f.Fuzz(func(t *testing.T, data []byte) {
		all := parsed(t, data)
		for i := range all {
			v := &all[i]
			if v.Err != nil {
				continue
			}
			size := must.Do(v.DType.NumBytes(must.Do(layout.Count(v.Shape))(t), true))(t)
			if size != v.Size || !v.Compressed && (!bytes.Equal(v.Data, data[v.Offset:v.Offset+size]) || int64(len(v.Data)) != size) {
				t.Fatalf("%+v of %d bytes", v, len(data))
			}
			x, err := v.Tensor(npy.Align(8))
			if err != nil {
				if !errors.Is(err, npy.ErrChecksum) && !(v.Compressed && errors.Is(err, npy.ErrZip)) {
					t.Fatal(err)
				}
				continue
			}
			if x.Flags()&dlpack.IsCopied == 0 && !v.Fortran && v.Type[0] != '>' && v.Type[1] != 'V' && v.Type[1:] != "f1" && x.DType() != dlpack.Bool {
				again := must.Do(npy.AppendTensor(nil, x))(t) // as NumPy would write it
				require.Equal(t, must.Do(x.AppendBytes([]byte{}))(t), must.Do(npy.DecodeFile(again))(t).Tensors[0].Data)
			}
			require.NoError(t, x.Close())
		}
	})
}

// FuzzAmplification: parsing any file takes at most a fixed multiple of its size.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	seeds(f, func(data []byte) {
		f.Add(data, uint16(0), uint16(0), uint16(0))
		f.Add(data, uint16(61), uint16(2), uint16(30000))
	})
	f.Fuzz(func(t *testing.T, data []byte, at, size, repeated uint16) {
		data = amplification.Repeat(data, at, size, repeated)
		if len(data) > 12 && !bytes.HasPrefix(data, []byte("PK")) { // with the right size
			binary.LittleEndian.PutUint16(data[8:], uint16(min(len(data)-10, 1<<16-1)))
		}
		amplification.Require(t, len(data), amplification.Variable, deflateMemory, func() (release func()) {
			parsed(t, data)
			return nil
		})
	})
}

// deflateMemory is the memory that package flate takes to inflate the headers of members, with the memory of the
// headers.
const deflateMemory = 256 << 10

func TestManyMembersTakeLittleMemory(t *testing.T) {
	scalar := string(file(dict("'|i1'", "()"), 1))
	const spaces = 500
	head := deflate(t, string(file(dict("'|i1'", "()")+string(bytes.Repeat([]byte{' '}, spaces)), 1)))
	for name, one := range map[string]part{
		"arrays":   {content: scalar},
		"texts":    {content: ""},
		"objects":  {content: string(file(dict("'|O'", "()"), 1))},
		"inflated": {content: string(head), inflated: 10 + spaces + len(dict("'|i1'", "()")) + 1},
		"shapes":   {content: string(file(dict("'|i1'", "("+string(bytes.Repeat([]byte("0,"), 64))+")"), 0))},
	} {
		t.Run(name, func(t *testing.T) {
			parts := make([]part, 2000)
			for i := range parts {
				parts[i] = one
				parts[i].name = string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
			}
			data, _, _ := archive(parts...)
			require.Len(t, parsed(t, data), len(parts))
			amplification.Require(t, len(data), amplification.Variable, deflateMemory, func() (release func()) {
				parsed(t, data)
				return nil
			})
		})
	}
}

// Headers of 64 KiB deflate to only a few bytes.
func TestTheHeadersOfDeflatedMembersAreBounded(t *testing.T) {
	header := dict("'|i1'", "()") + string(bytes.Repeat([]byte{' '}, 65000))
	one := part{name: "x.npy", content: string(deflate(t, string(file(header, 1)))), inflated: 10 + len(header) + 1}
	data, _, _ := archive(one)
	require.Len(t, parsed(t, data), 1)
	two := one
	two.name = "y.npy"
	data, _, _ = archive(one, two)
	_, err := npy.DecodeZip(data)
	require.ErrorIs(t, err, elements.ErrHeader)
	var fail *elements.Error
	require.ErrorAs(t, err, &fail)
	require.Equal(t, int64(70+len(one.content)), fail.Offset)
}
