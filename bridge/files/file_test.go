//go:build cgo && (linux || darwin)

package files_test

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func init() {
	useTensor = func(t testing.TB, f *files.File) { require.NoError(t, must.Do(f.Tensor("x"))(t).Close()) }
}

func values[T dlpack.Element](t testing.TB, x *dlpack.Tensor) (values []T) {
	require.NoError(t, dlpack.Read(x, func(v []T) error { values = slices.Clone(v); return nil }))
	return values
}

func fromSlice[T dlpack.Element](t testing.TB, data []T, shape ...int64) *dlpack.Tensor {
	return must.Own(dlpack.FromSlice(data, shape...))(t)
}

func TestTensorsLieInTheFile(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, name := range []string{"x.safetensors"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			written := map[string]*dlpack.Tensor{
				"x": fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3),
				"y": fromSlice(t, []int64{7}),
				"z": fromSlice(t, []uint16{}, 0, 3),
			}
			require.NoError(t, files.Write(path, named(written)))
			f := must.Own(files.Open(path))(t)
			all := must.Do(f.Tensors())(t)
			assert.ElementsMatch(t, slices.Collect(maps.Keys(written)), slices.Collect(maps.Keys(all)))
			var start uintptr
			for _, e := range f.Entries() {
				x := all[e.Name]
				defer x.Close()
				assert.True(t, must.Do(dlpack.Equal(x, written[e.Name]))(t))
				assert.Equal(t, e.DType, x.DType())
				assert.Equal(t, e.Shape, x.Shape())
				assert.Equal(t, e.Size, x.NumBytes())
				assert.Equal(t, dlpack.ReadOnly, x.Flags())
				assert.True(t, e.Aligned)
				c := must.Own(f.Copy(e.Name))(t)
				assert.True(t, must.Do(dlpack.Equal(x, c))(t))
				assert.Equal(t, dlpack.IsCopied, c.Flags())
				if e.Size == 0 {
					continue
				}
				if start == 0 {
					start = x.Data() - uintptr(e.Offset)
				}
				assert.Equal(t, start+uintptr(e.Offset), x.Data(), "all are in one mapping")
				assert.NotEqual(t, x.Data(), c.Data())
			}
			assert.Zero(t, start%uintptr(os.Getpagesize()))
			contents := must.Do(os.ReadFile(path))(t)
			assert.Equal(t, contents, unsafe.Slice(*(**byte)(unsafe.Pointer(&start)), len(contents)), "of the whole file")
		})
	}
}

func named(tensors map[string]*dlpack.Tensor) (all []files.Named) {
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		all = append(all, files.Named{Name: name, Tensor: tensors[name]})
	}
	return all
}

func TestTensorsOutliveTheFile(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	before := open(t)
	path := write(t, "model", contents(t, 3, "x", "y"))
	f := must.Own(files.Open(path))(t)
	x := must.Own(f.Tensor("x"))(t)
	y := must.Do(f.Tensor("y"))(t)
	require.NoError(t, f.Close())
	require.NoError(t, os.Truncate(path, must.Do(os.Stat(path))(t).Size())) // which changes nothing
	require.NoError(t, os.Remove(path))
	m := must.Do(y.Export())(t)
	require.NoError(t, y.Close())
	assert.Equal(t, []byte{0, 1, 2}, values[byte](t, x))
	require.NoError(t, x.Close())
	y = must.Do(dlpack.Import(m))(t)
	assert.Equal(t, []byte{3, 4, 5}, values[byte](t, y))
	must.Fail(f.Tensor("x"))(t, dlpack.ErrClosed)
	must.Fail(f.Copy("x"))(t, dlpack.ErrClosed)
	must.Fail(f.Tensors())(t, dlpack.ErrClosed)
	assert.NotEqual(t, before, open(t))
	require.NoError(t, y.Close())
	assert.Equal(t, before, open(t))
}

func TestCopyOfAFileThatBecameShorter(t *testing.T) {
	path := write(t, "model", contents(t, 1<<16, "x", "y"))
	f := must.Own(files.Open(path))(t)
	y := must.Do(f.Find("y"))(t)
	require.NoError(t, os.Truncate(path, y.Offset))
	assert.Equal(t, byte(1), values[byte](t, must.Own(f.Copy("x"))(t))[1])
	must.Fail(f.Copy("y"))(t, io.ErrUnexpectedEOF)
}

func TestCloseWhileOthersUseTheFile(t *testing.T) {
	path := write(t, "model", contents(t, 1<<16, "x", "y"))
	for range 100 {
		f := must.Do(files.Open(path))(t)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for {
					x, err := f.Copy("x")
					if err != nil {
						assert.ErrorIs(t, err, dlpack.ErrClosed)
						return
					}
					assert.NoError(t, x.Close())
					if _, err = f.AppendBytes(nil, "y"); err != nil {
						assert.ErrorIs(t, err, dlpack.ErrClosed)
					}
				}
			})
		}
		assert.NoError(t, f.Close())
		wait.Wait()
	}
}
