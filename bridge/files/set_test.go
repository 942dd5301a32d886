//go:build linux || darwin

package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// set writes files and returns the path of an index with the given text.
func set(t testing.TB, index string, parts map[string]string) string {
	folder := t.TempDir()
	for name, text := range parts {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	path := filepath.Join(folder, "model.safetensors.index.json")
	require.NoError(t, os.WriteFile(path, []byte(index), 0o600))
	return path
}

func TestOpenSet(t *testing.T) {
	before := open(t)
	path := set(t, `{"metadata": {"total_size": 9, "b": "c"}, "weight_map": {"x": "1.safetensors", "z": "folder/2.safetensors", "y": "1.safetensors"}}`, map[string]string{
		"1.safetensors": contents(t, 3, "w", "x", "y"), "folder/2.safetensors": contents(t, 4, "x", "z"),
	})
	f := must.Own(files.OpenSet(path))(t)
	assert.Equal(t, files.Safetensors, f.Format())
	assert.Equal(t, []files.Field{{Key: "b", Value: "c"}, {Key: "total_size", Value: json.Number("9")}}, f.Metadata())
	got := map[string]string{}
	for _, e := range f.Entries() {
		got[e.Name] = string(must.Do(f.AppendBytes(nil, e.Name))(t))
	}
	assert.Equal(t, map[string]string{"x": "\x03\x04\x05", "y": "\x06\x07\x08", "z": "\x04\x05\x06\x07"}, got)
	assert.Equal(t, filepath.Join(filepath.Dir(path), "folder", "2.safetensors"), must.Do(f.Find("z"))(t).Path)
	must.Fail(f.Find("w"))(t, elements.ErrNoName)
	require.NoError(t, f.Verify())
	require.NoError(t, os.Truncate(must.Do(f.Find("z"))(t).Path, 3))
	assert.ErrorIs(t, f.Verify(), files.ErrChanged)
	require.NoError(t, f.Close())
	assert.Equal(t, before, open(t))
}

func TestOpenSetRefuses(t *testing.T) {
	part := map[string]string{"1.safetensors": contents(t, 3, "x")}
	tests := []struct {
		name, index string
		parts       map[string]string
		cause       error
		text        string
	}{
		{"no index", "[]", part, elements.ErrHeader, "safetensors: byte 0: "},
		{"folder above", `{"weight_map": {"x": "../1.safetensors"}}`, part, elements.ErrName, "byte 21: "},
		{"missing file", `{"weight_map": {"x": "2.safetensors"}}`, part, os.ErrNotExist, ": 2.safetensors: no such file"},
		{"missing tensor", `{"weight_map": {"x": "1.safetensors", "y": "1.safetensors"}}`, part, elements.ErrNoName, `: 1.safetensors: the index lists tensor "y" in this file, but the file does not have it`},
		{"cut file", `{"weight_map": {"x": "1.safetensors"}}`, map[string]string{"1.safetensors": part["1.safetensors"][:9]}, elements.ErrTruncated, ": 1.safetensors: safetensors: byte 9: "},
		{"the index itself", `{"weight_map": {"x": "model.safetensors.index.json"}}`, part, files.ErrFormat, "the file is JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := open(t)
			path := set(t, tt.index, tt.parts)
			f, err := files.OpenSet(path)
			assert.ErrorIs(t, err, tt.cause)
			assert.ErrorContains(t, err, "files: open set "+path+": ")
			assert.ErrorContains(t, err, tt.text)
			assert.Nil(t, f)
			assert.Equal(t, before, open(t))
		})
	}
}
