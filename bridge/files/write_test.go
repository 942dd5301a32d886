//go:build cgo && (linux || darwin)

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// list returns the names of the files in a folder.
func list(t testing.TB, folder string) (names []string) {
	for _, entry := range must.Do(os.ReadDir(folder))(t) {
		names = append(names, entry.Name())
	}
	return names
}

func TestWriteReplacesAFile(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	folder := t.TempDir()
	path, link := filepath.Join(folder, "model.safetensors"), filepath.Join(folder, "link.safetensors")
	x := fromSlice(t, []int32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, files.Write(path, []files.Named{{Name: "x", Tensor: x}}))
	assert.Equal(t, os.FileMode(0o640), must.Do(os.Stat(path))(t).Mode())

	f := must.Own(files.Open(path))(t)
	before := must.Own(f.Tensor("x"))(t)
	require.NoError(t, os.Chmod(path, 0o604))
	require.NoError(t, os.Symlink("model.safetensors", link))
	columns := must.Own(before.Transpose())(t)
	require.NoError(t, files.Write(link, []files.Named{{Name: "x", Tensor: columns}}, files.Metadata(map[string]string{"a": "b"})))
	assert.Equal(t, os.FileMode(0o604), must.Do(os.Stat(path))(t).Mode())
	assert.Equal(t, os.ModeSymlink, must.Do(os.Lstat(link))(t).Mode().Type())
	assert.Equal(t, []string{"link.safetensors", "model.safetensors"}, list(t, folder))
	require.NoError(t, f.Verify())
	assert.Equal(t, []int32{1, 2, 3, 4, 5, 6}, values[int32](t, before))

	f = must.Own(files.Open(path))(t)
	assert.Equal(t, []files.Field{{Key: "a", Value: "b"}}, f.Metadata())
	after := must.Own(f.Tensor("x"))(t)
	assert.Equal(t, []int64{3, 2}, after.Shape())
	assert.Equal(t, []int32{1, 4, 2, 5, 3, 6}, values[int32](t, after))
}

func TestWriteRefuses(t *testing.T) {
	folder := t.TempDir()
	fifo, file := filepath.Join(folder, "fifo.safetensors"), filepath.Join(folder, "model.safetensors")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	require.NoError(t, os.WriteFile(file, []byte("as before"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "folder.safetensors"), 0o700))
	x := fromSlice(t, []int32{1, 2, 3})
	closed := must.Do(x.Share())(t)
	closed.Close()
	bools := must.Own(must.Own(dlpack.FromSlice([]uint8{1, 2}))(t).View(dlpack.Spec{DType: dlpack.Bool, Shape: []int64{2}}))(t)
	stopped := errors.New("stopped")
	named := []files.Named{{Name: "x", Tensor: x}}
	tests := []struct {
		name, path string
		tensors    []files.Named
		option     files.WriteOption
		cause      error
		text       string
	}{
		{"no folder", filepath.Join(folder, "none", "x.safetensors"), named, nil, os.ErrNotExist, "a temporary file in "},
		{"FIFO", fifo, named, nil, files.ErrKind, "it is a FIFO"},
		{"directory", filepath.Join(folder, "folder.safetensors"), named, nil, files.ErrKind, "it is a directory"},
		{"device", "/dev/null", named, files.InFormat(files.Safetensors), files.ErrKind, "it is a device"},
		{"unknown format", filepath.Join(folder, "x.bin"), named, nil, files.ErrFormat, `"bin" is not one of the formats [`},
		{"no format", filepath.Join(folder, "x"), named, nil, files.ErrFormat, `"" is not one of the formats [`},
		{"two tensors in npy", filepath.Join(folder, "x.npy"), []files.Named{{Name: "x", Tensor: x}, {Name: "y", Tensor: x}}, nil, files.ErrFormat, "there are 2 tensors, but an npy file has one"},
		{"metadata in npy", filepath.Join(folder, "x.npy"), named, files.Metadata(map[string]string{}), files.ErrFormat, "are for safetensors"},
		{"closed tensor", file, []files.Named{{Name: "x", Tensor: closed}}, nil, dlpack.ErrClosed, `tensor "x"`},
		{"nil tensor", file, []files.Named{{Name: "x", Tensor: nil}}, nil, dlpack.ErrClosed, `tensor "x"`},
		{"bad bool", file, []files.Named{{Name: "x", Tensor: x}, {Name: "y", Tensor: bools}}, nil, dlpack.ErrValue, `tensor "y"`},
		{"two of a name", file, []files.Named{{Name: "x", Tensor: x}, {Name: "x", Tensor: x}}, nil, elements.ErrDuplicate, `two tensors have the name "x"`},
		{"stopped", file, named, files.Progress(func(int64, int64) error { return stopped }), stopped, "stopped"},
	}
	before := list(t, folder)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := files.Write(tt.path, tt.tensors, tt.option)
			assert.ErrorIs(t, err, tt.cause)
			assert.ErrorContains(t, err, "files: write "+tt.path+": ")
			assert.ErrorContains(t, err, tt.text)
			assert.Equal(t, before, list(t, folder))
			assert.Equal(t, "as before", string(must.Do(os.ReadFile(file))(t)))
		})
	}
}

func TestWriteReportsAFullDisk(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)) }()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64 << 20, Max: limit.Max})) // the log of `go test` is smaller
	folder := t.TempDir()
	x := must.Own(dlpack.New(dlpack.Uint8, 65<<20))(t)
	assert.ErrorIs(t, files.Write(filepath.Join(folder, "x.safetensors"), []files.Named{{Name: "x", Tensor: x}}), syscall.EFBIG)
	assert.Empty(t, list(t, folder))
}

func TestWriteTellsItsProgress(t *testing.T) {
	const size = 40 << 20
	path := filepath.Join(t.TempDir(), "x.safetensors")
	x := must.Own(dlpack.New(dlpack.Uint8, size))(t)
	var told []int64
	require.NoError(t, files.Write(path, []files.Named{{Name: "x", Tensor: x}}, files.Progress(func(written, total int64) error {
		assert.Equal(t, int64(size), total)
		told = append(told, written)
		return nil
	})))
	assert.Greater(t, len(told), 3)
	assert.IsNonDecreasing(t, told)
	assert.Less(t, told[0], int64(1000))
	assert.Equal(t, int64(size), told[len(told)-1])
}

func TestWriteOfMemoryThatIsGoneIsAnError(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	page := os.Getpagesize()
	path := write(t, "model", contents(t, int64(3*page), "x"))
	f := must.Own(files.Open(path))(t)
	x := must.Own(f.Tensor("x"))(t)
	bools := must.Own(x.View(dlpack.Spec{DType: dlpack.Bool, Shape: x.Shape()}))(t)
	require.NoError(t, os.Truncate(path, 0))
	folder := t.TempDir()
	assert.ErrorIs(t, files.Write(filepath.Join(folder, "x.safetensors"), []files.Named{{Name: "x", Tensor: x}}), syscall.EFAULT)
	assert.ErrorIs(t, files.Write(filepath.Join(folder, "x.safetensors"), []files.Named{{Name: "x", Tensor: bools}}), files.ErrChanged)
	assert.Empty(t, list(t, folder))
}

func TestAlignedTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	odd, even := fromSlice(t, []byte{1, 2, 3}), fromSlice(t, make([]float32, 16))
	require.NoError(t, files.Write(path, []files.Named{{Name: "a", Tensor: odd}, {Name: "b", Tensor: even}}, files.Align(64)))
	f := must.Own(files.Open(path))(t)
	assert.Zero(t, must.Do(f.Find("b"))(t).Offset%64)
	assert.ErrorIs(t, files.Write(path, []files.Named{{Name: "a", Tensor: odd}}, files.Align(3)), dlpack.ErrUnaligned)
}
