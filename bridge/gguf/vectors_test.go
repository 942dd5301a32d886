package gguf_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/gguf"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// recorded is a file written by the Python package gguf, with the contents that the package reads from it: see
// testdata/README.md.
type recorded struct {
	File      string
	Version   int
	Alignment int64
	Metadata  []struct {
		Key           string
		Types, Values []string
	}
	Tensors []struct {
		Name, Type    string
		Shape         []int64
		Offset, Bytes int64
		SHA256        string
	}
}

func TestFilesOfThePythonPackageAreReadAlike(t *testing.T) {
	var manifest struct{ Files []recorded }
	require.NoError(t, json.Unmarshal(must.Do(os.ReadFile("testdata/manifest.json"))(t), &manifest))
	require.Len(t, manifest.Files, 6)
	for _, want := range manifest.Files {
		t.Run(want.File, func(t *testing.T) {
			f := must.Do(gguf.DecodeFile(must.Do(os.ReadFile(filepath.Join("testdata", want.File)))(t)))(t)
			assert.Equal(t, want.Version, f.Version)
			assert.Equal(t, want.Alignment, f.Alignment)
			require.Len(t, f.Metadata, len(want.Metadata))
			for i, e := range f.Metadata {
				assert.Equal(t, want.Metadata[i].Key, e.Key)
				types, values := flatten(e.Value)
				assert.Equal(t, want.Metadata[i].Types, types, e.Key)
				assert.Equal(t, want.Metadata[i].Values, values, e.Key)
			}
			require.Len(t, f.Tensors, len(want.Tensors))
			for i, v := range f.Tensors {
				w := want.Tensors[i]
				sum := sha256.Sum256(v.Data)
				assert.Equal(t, fmt.Sprint(w), fmt.Sprint(struct {
					Name, Type    string
					Shape         []int64
					Offset, Bytes int64
					SHA256        string
				}{v.Name, v.DType.String(), v.Shape, v.Offset, int64(len(v.Data)), hex.EncodeToString(sum[:])}))
			}
		})
	}
	_, err := gguf.DecodeFile(must.Do(os.ReadFile("testdata/big.gguf"))(t))
	assert.EqualError(t, err, "gguf: byte 4: the file is big-endian, but only little-endian files can be read: malformed header")
}

// flatten returns a value in the form of the Python package: the name of its type, the name of the type of its
// elements, and all values as texts.
func flatten(value any) (types, values []string) {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		return []string{v.Type().String()}, []string{fmt.Sprint(value)}
	}
	for i := range v.Len() {
		of, some := flatten(v.Index(i).Interface())
		types, values = of, append(values, some...)
	}
	return append([]string{"array"}, types...), values
}
