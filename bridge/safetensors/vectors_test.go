package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// manifest describes files that the reference has written, or reads.
type manifest struct {
	vectors.Folder
	Files []struct {
		ID, File string
		Align    *int // the alignment that gives the same bytes; nil if there is none
		Metadata map[string]string
		Tensors  []struct {
			Name, DType  string
			Shape        []int64
			Offset, Size int64
		}
	}
}

func TestFilesOfTheReferenceAreReadAndWrittenByteForByte(t *testing.T) {
	vectors.Each(t, "safetensors", func(t *testing.T, m manifest) {
		for _, file := range m.Files {
			t.Run(file.ID, func(t *testing.T) {
				data := m.File(t, file.File)
				f := must.Do(safetensors.DecodeFile(data))(t)
				assert.Equal(t, file.Metadata, f.Metadata)
				require.Len(t, f.Tensors, len(file.Tensors))
				for i, want := range file.Tensors {
					v := must.Do(f.Find(want.Name))(t)
					assert.Same(t, &f.Tensors[i], v)
					assert.Equal(t, want.DType, v.DType.String())
					assert.Equal(t, want.Shape, v.Shape)
					assert.Equal(t, want.Offset, v.Offset)
					assert.Equal(t, data[want.Offset:want.Offset+want.Size], v.Data)
				}
				if file.Align == nil {
					return
				}
				given := slices.Clone(f.Tensors)
				slices.Reverse(given)
				out, views, err := safetensors.AppendHeader([]byte("before"), given, f.Metadata, safetensors.Align(*file.Align))
				require.NoError(t, err)
				assert.Equal(t, len(f.Tensors), len(views))
				for i, v := range views {
					assert.Equal(t, f.Tensors[i], v)
					out = append(out, v.Data...)
				}
				assert.True(t, bytes.Equal(append([]byte("before"), data...), out), "%q", out)
			})
		}
	})
}

// causes has the errors that malformed.json names.
var causes = map[string]error{
	"header": elements.ErrHeader, "truncated": elements.ErrTruncated, "offsets": safetensors.ErrOffsets,
	"duplicate": elements.ErrDuplicate, "dtype": elements.ErrDType, "size": elements.ErrSize, "negative": layout.ErrNegative,
	"overflow": layout.ErrOverflow, "rank": dlpack.ErrLayout,
}

// A malformed file has a header and a number of bytes after it.
type malformed struct {
	ID, Header, Cause string
	Data              int
	Length            *uint64 // instead of the true length of the header
	Cut               *int    // the size of the file, if it is cut
	Byte              int64   // of the fault
}

func (m *malformed) file() []byte {
	length := uint64(len(m.Header))
	if m.Length != nil {
		length = *m.Length
	}
	file := append(binary.LittleEndian.AppendUint64(nil, length), m.Header...)
	file = append(file, make([]byte, m.Data)...)
	if m.Cut != nil {
		file = file[:*m.Cut]
	}
	return file
}

func readMalformed(t testing.TB) (all []malformed) {
	require.NoError(t, json.Unmarshal(must.Do(os.ReadFile("testdata/malformed.json"))(t), &all))
	return all
}

func TestMalformedFilesAreRefusedWithTheByteOfTheFault(t *testing.T) {
	for _, m := range readMalformed(t) {
		t.Run(m.ID, func(t *testing.T) {
			f, err := safetensors.DecodeFile(m.file())
			require.ErrorIs(t, err, causes[m.Cause])
			assert.Nil(t, f)
			var e *elements.Error
			require.True(t, errors.As(err, &e), err)
			assert.Equal(t, m.Byte, e.Offset, err)
			assert.Less(t, len(err.Error()), 500)
		})
	}
}
