//go:build cgo && (linux || darwin)

package files_test

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/bridge/npy"
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

// layouts returns tensors of several types and layouts by name.
func layouts(t testing.TB) map[string]*dlpack.Tensor {
	x := fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	return map[string]*dlpack.Tensor{
		"x": x, "columns": must.Own(x.Transpose())(t), "reversed": must.Own(x.Flip(0, 1))(t), "y": fromSlice(t, []int64{7}),
		"scalar": must.Own(x.Index(1, 1))(t), "empty": fromSlice(t, []uint16{}, 0, 3), "bools": fromSlice(t, []bool{true, false}),
		"complex": fromSlice(t, []complex64{1, 2i}),
	}
}

func TestWrittenTensorsLieInTheFile(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	all := layouts(t)
	type test struct {
		file    string
		format  files.Format
		tensors map[string]*dlpack.Tensor
	}
	tests := []test{{"all.safetensors", files.Safetensors, all}, {"none.safetensors", files.Safetensors, nil}, {"all.npz", files.NPZ, all}, {"none.npz", files.NPZ, nil}}
	for name, x := range all {
		tests = append(tests, test{name + ".npy", files.NPY, map[string]*dlpack.Tensor{"arr_0": x}})
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tt.file)
			require.NoError(t, files.Write(path, named(tt.tensors)))
			f := must.Own(files.Open(path))(t)
			assert.Equal(t, tt.format, f.Format())
			read := checkTensors(t, f)
			assert.Len(t, read, len(tt.tensors))
			tensors := must.Do(f.Tensors())(t)
			assert.ElementsMatch(t, slices.Collect(maps.Keys(read)), slices.Collect(maps.Keys(tensors)))
			for _, x := range tensors {
				assert.NoError(t, x.Close())
			}
			for name, x := range tt.tensors {
				assert.True(t, must.Do(dlpack.Equal(x, read[name]))(t), name)
			}
		})
	}
}

// checkTensors checks that the tensors of a file agree with its descriptions and lie in one mapping of the file, and
// that copies are equal.
func checkTensors(t testing.TB, f *files.File) map[string]*dlpack.Tensor {
	all := map[string]*dlpack.Tensor{}
	var start uintptr
	for _, e := range f.Entries() {
		if e.Err != nil {
			must.Fail(f.Tensor(e.Name))(t, e.Err)
			must.Fail(f.Copy(e.Name))(t, e.Err)
			_, err := f.Tensors()
			assert.ErrorContains(t, err, "npy: byte ")
			continue
		}
		x := must.Own(f.Tensor(e.Name))(t)
		all[e.Name] = x
		c := must.Own(f.Copy(e.Name))(t)
		assert.Equal(t, must.Do(x.AppendBytes(nil))(t), must.Do(c.AppendBytes(nil))(t), e.Name)
		assert.Equal(t, dlpack.IsCopied, c.Flags()&^dlpack.SubbytePadded, e.Name)
		assert.Equal(t, e.DType, x.DType(), e.Name)
		if e.Copied != "" {
			assert.Equal(t, dlpack.IsCopied, x.Flags()&^dlpack.SubbytePadded, e.Name)
			continue
		}
		assert.Equal(t, dlpack.ReadOnly, x.Flags()&^dlpack.SubbytePadded, e.Name)
		assert.Equal(t, e.Size, x.NumBytes(), e.Name)
		if e.Size == 0 {
			continue
		}
		item := e.DType.ItemSize()
		if e.DType.Code() == dlpack.CodeComplex {
			item /= 2
		}
		assert.Equal(t, e.Aligned, x.Alignment() >= item, e.Name)
		if start == 0 {
			start = x.Data() - uintptr(e.Offset)
			contents := must.Do(os.ReadFile(e.Path))(t)
			assert.Equal(t, contents, unsafe.Slice(*(**byte)(unsafe.Pointer(&start)), len(contents)), "the memory of the whole file")
		}
		assert.Equal(t, start+uintptr(e.Offset), x.Data(), "%s lies there in the one mapping", e.Name)
		assert.NotEqual(t, x.Data(), c.Data())
	}
	return all
}

// The testdata of the formats has files written by their peers, and some files that the formats refuse.
func TestFilesOfPeers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	opened := map[files.Format]int{}
	for _, path := range must.Do(filepath.Glob("../*/testdata/*"))(t) {
		if !slices.Contains([]string{".safetensors", ".npy", ".npz", ".gguf"}, filepath.Ext(path)) {
			continue
		}
		f, err := files.Open(path)
		if err != nil {
			var in *elements.Error
			assert.ErrorAs(t, err, &in, "a place: %v", err)
			continue
		}
		opened[f.Format()]++
		checkTensors(t, f)
		assert.NoError(t, f.Close())
	}
	for format, least := range map[files.Format]int{files.Safetensors: 8, files.NPY: 50, files.NPZ: 3, files.GGUF: 4} {
		assert.GreaterOrEqual(t, opened[format], least, format)
	}
}

func TestQuantisedTensorsAreBlocksOfBytes(t *testing.T) {
	f := must.Own(files.Open("../gguf/testdata/types.gguf"))(t)
	assert.Contains(t, f.Metadata(), files.Field{Key: "general.architecture", Value: "llama"})
	quantised := 0
	for _, e := range f.Entries() {
		x := must.Own(f.Tensor(e.Name))(t)
		if x.Rank() == len(e.Shape) {
			continue
		}
		quantised++
		assert.Equal(t, dlpack.Uint8, e.DType)
		assert.Equal(t, len(e.Shape)+1, x.Rank(), e.Type)
		assert.Equal(t, e.Shape[:len(e.Shape)-1], x.Shape()[:len(e.Shape)-1], e.Type)
	}
	assert.Greater(t, quantised, 20)
}

func TestTypesOfNumPyWithoutAName(t *testing.T) {
	const path = "../npy/testdata/bfloat16-2x3.npy"
	f := must.Own(files.Open(path))(t)
	assert.Equal(t, []int64{2, 3, 2}, f.Entries()[0].Shape)
	f = must.Own(files.Open(path, files.As(dlpack.BFloat16)))(t)
	assert.Equal(t, []int64{2, 3}, f.Entries()[0].Shape)
	assert.Equal(t, dlpack.BFloat16, checkTensors(t, f)["arr_0"].DType())
	must.Fail(files.Open(path, files.As(dlpack.Float32)))(t, dlpack.ErrDType)
	must.Fail(files.Open(write(t, "model", contents(t, 3, "x")), files.As(dlpack.BFloat16)))(t, files.ErrFormat)
}

func TestWritableTensorsChangeTheFile(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	path := filepath.Join(t.TempDir(), "x.npy")
	require.NoError(t, files.Write(path, []files.Named{{Tensor: fromSlice(t, []float32{1, 2, 3})}}))
	f := must.Own(files.Open(path, files.Writable()))(t)
	x := must.Own(f.Tensor("arr_0"))(t)
	require.NoError(t, x.SetAt(float32(7), 1))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Verify())
	assert.Equal(t, []float32{1, 7, 3}, values[float32](t, must.Own(f.Copy("arr_0"))(t)))
	require.NoError(t, f.Close())
	require.NoError(t, x.SetAt(float32(8), 2))
	f = must.Own(files.Open(path))(t)
	assert.Equal(t, []float32{1, 7, 8}, values[float32](t, must.Own(f.Tensor("arr_0"))(t)))
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
	require.NoError(t, os.Truncate(path, must.Do(os.Stat(path))(t).Size())) // this changes only the time
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

// If a format copies elements out of the mapping, Go code makes the copy.
func TestABigEndianArrayThatIsGoneIsAnError(t *testing.T) {
	head := must.Do(npy.AppendHeader(nil, dlpack.Int32, []int64{1 << 16}, false))(t)
	big := strings.Replace(string(head), "<i4", ">i4", 1) + strings.Repeat("\x01\x02\x03\x04", 1<<16)
	path := write(t, "big.npy", big)
	must.Fail(files.Open(path, files.Writable()))(t, files.ErrFormat)
	f := must.Own(files.Open(path))(t)
	assert.Equal(t, int32(0x01020304), values[int32](t, must.Own(f.Tensor("arr_0"))(t))[0])
	require.NoError(t, os.Truncate(path, 10000))
	must.Fail(f.Tensor("arr_0"))(t, files.ErrChanged)
	must.Fail(f.Copy("arr_0"))(t, files.ErrChanged)
}

func TestCloseWhileOthersUseTheFile(t *testing.T) {
	path := write(t, "model", contents(t, 1<<16, "x", "y"))
	for range 20 {
		f := must.Do(files.Open(path))(t)
		var begun, wait sync.WaitGroup
		begun.Add(4)
		for range 4 {
			wait.Go(func() {
				done := sync.OnceFunc(begun.Done)
				defer done()
				for n := 0; ; n++ {
					if n == 1 {
						done()
					}
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
		begun.Wait()
		assert.NoError(t, f.Close())
		wait.Wait()
	}
}
