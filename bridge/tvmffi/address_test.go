//go:build cgo

package tvmffi_test

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// An argument whose data address cannot be memory is refused before it becomes a Go pointer. Such a pointer would end
// the process when the stack with the slice grows.
func TestArgumentsLieWhereMemoryCanBe(t *testing.T) {
	for _, row := range []struct {
		name  string
		data  uintptr
		shape []int64
		good  bool
	}{
		{"the first page", 16, []int64{2}, false},
		{"the first page, in two dimensions", 4080, []int64{2, 1}, false},
		{"the second page", 4096, []int64{2}, true},
		{"the second page, in two dimensions", 4096, []int64{2, 1}, true},
		{"the upper half", 1<<63 + 16, []int64{2}, false},
		{"the end of all", ^uintptr(0) &^ 15, []int64{8}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			// The data must not be read, so the test only checks what Go makes of the address.
			p := dlpacktest.Produce(t, dlpacktest.Config{Shape: row.shape, DataAt: row.data})
			result := new(ffiAny)
			status := tvmffi.Serve(func(a tvmffi.Args) (any, error) {
				values := tvmffi.Slice[float32](a, 0)
				if !row.good {
					assert.Nil(t, values)
					assert.ErrorContains(t, a.Check(1), "outside the address space")
					return nil, nil
				}
				assert.Equal(t, row.data, uintptr(unsafe.Pointer(unsafe.SliceData(values))))
				growStack(200)
				runtime.KeepAlive(values)
				x := a.Tensor(0)
				assert.Equal(t, row.data, x.Data())
				return nil, a.Check(1)
			}, unsafe.Pointer(&ffiAny{kind: constant("FFI_DLTENSOR"), bits: uintptr(p.DLTensor(false))}), 1, unsafe.Pointer(result))
			assert.Equal(t, row.good, status == 0)
		})
	}
}

var escaped any

// The arguments and the values they point to lie at addresses without memory. If Go finds a pointer to an address below
// 4096 on a stack, it ends the process.
func TestArgumentsBelowTheFirstPageAreRefused(t *testing.T) {
	need(t)
	type text struct {
		data uintptr
		size int
	}
	tensor := func(config dlpacktest.Config) uintptr {
		return uintptr(dlpacktest.Produce(t, config).DLTensor(false))
	}
	vector, matrix := []int64{4}, []int64{2, 2}
	uses := map[string]func(a tvmffi.Args) any{
		"shape":    func(a tvmffi.Args) any { return a.Shape(0) },
		"slice":    func(a tvmffi.Args) any { return tvmffi.Slice[float32](a, 0) },
		"tensor":   func(a tvmffi.Args) any { return a.Tensor(0) },
		"string":   func(a tvmffi.Args) any { return a.String(0) },
		"bytes":    func(a tvmffi.Args) any { return a.Bytes(0) },
		"function": func(a tvmffi.Args) any { return a.Function(0) },
		"keep": func(a tvmffi.Args) any {
			v, err := a.Keep(0)
			assert.ErrorIs(t, err, dlpack.ErrNull)
			return v
		},
	}
	for _, at := range []uintptr{8, 4088} {
		described := &text{at, 5} // on the heap, since it escapes
		escaped = described
		for _, row := range []struct {
			name string
			kind string
			bits uintptr
			uses []string
		}{
			{"a DLTensor", "FFI_DLTENSOR", at, []string{"shape", "slice", "tensor"}},
			{"a tensor object", "FFI_TENSOR", at, []string{"shape", "slice", "tensor", "keep"}},
			{"the shape of a vector", "FFI_DLTENSOR", tensor(dlpacktest.Config{Shape: vector, ShapeAt: at}), []string{"shape", "slice", "tensor"}},
			{"the shape of a matrix", "FFI_DLTENSOR", tensor(dlpacktest.Config{Shape: matrix, ShapeAt: at}), []string{"shape", "slice", "tensor"}},
			{"the strides of a vector", "FFI_DLTENSOR", tensor(dlpacktest.Config{Shape: vector, StridesAt: at}), []string{"slice", "tensor"}},
			{"the strides of a matrix", "FFI_DLTENSOR", tensor(dlpacktest.Config{Shape: matrix, StridesAt: at}), []string{"slice", "tensor"}},
			{"a C string", "FFI_RAW_STRING", at, []string{"string"}},
			{"a byte array", "FFI_BYTE_ARRAY", at, []string{"bytes"}},
			{"the data of a byte array", "FFI_BYTE_ARRAY", uintptr(unsafe.Pointer(described)), []string{"bytes"}},
			{"a string object", "FFI_STRING", at, []string{"string", "keep"}},
			{"a bytes object", "FFI_BYTES", at, []string{"bytes", "keep"}},
			{"a function", "FFI_FUNCTION", at, []string{"function", "keep"}},
		} {
			for _, use := range row.uses {
				t.Run(fmt.Sprintf("%s of %s at %d", use, row.name, at), func(t *testing.T) {
					var message error
					status := tvmffi.Serve(func(a tvmffi.Args) (any, error) {
						got := uses[use](a)
						growStack(200)
						assert.Empty(t, got)
						runtime.KeepAlive(got)
						message = a.Check(1)
						return nil, nil
					}, unsafe.Pointer(&ffiAny{kind: constant(row.kind), bits: row.bits}), 1, unsafe.Pointer(new(ffiAny)))
					if use == "keep" {
						return // Check returns its error
					}
					assert.EqualValues(t, -1, status)
					assert.ErrorContains(t, message, fmt.Sprintf("%#x", at))
				})
			}
		}
	}
}

func TestShapesOfScalarsAreNotLookedAt(t *testing.T) {
	p := dlpacktest.Produce(t, dlpacktest.Config{ShapeAt: 8}) // as in Rust
	status := tvmffi.Serve(func(a tvmffi.Args) (any, error) {
		shape := a.Shape(0)
		assert.NotNil(t, shape)
		assert.Empty(t, shape)
		growStack(200)
		runtime.KeepAlive(shape)
		assert.Len(t, tvmffi.Slice[float32](a, 0), 1)
		return nil, a.Check(1)
	}, unsafe.Pointer(&ffiAny{kind: constant("FFI_DLTENSOR"), bits: uintptr(p.DLTensor(false))}), 1, unsafe.Pointer(new(ffiAny)))
	assert.Zero(t, status)
}

// growStack needs about a KiB of stack for each level.
func growStack(depth int) byte {
	var room [1024]byte
	if depth > 0 {
		room[depth] = growStack(depth - 1)
	}
	return room[depth%7]
}

// A batch has slices next to a pointer that is not pinned.
type batch struct {
	name *string
	rows [12][64]float32
}

var globalBatch batch

// The function does not see the object around a slice. The test passes slices through the call itself, further slices,
// which are pinned, and slices of a prepared call.
func TestSlicesInsideObjectsWithPointersAreArguments(t *testing.T) {
	need(t)
	sum := serve(t, func(a tvmffi.Args) (any, error) {
		total := float32(0)
		for i := range a.Len() {
			for _, x := range tvmffi.Slice[float32](a, i) {
				total += x
			}
		}
		return total, a.Check(-1)
	})
	for _, row := range []struct {
		name  string
		batch *batch
	}{{"a struct", new(batch)}, {"a global", &globalBatch}} {
		row.batch.name = new(string)
		for _, count := range []int{1, 8, 12} {
			t.Run(fmt.Sprintf("%d of %s", count, row.name), func(t *testing.T) {
				var args []any
				for i := range count {
					row.batch.rows[i][i] = 1
					args = append(args, row.batch.rows[i][:])
				}
				got := must.Do(tvmffi.As[float64](sum.Call(args...)))(t)
				assert.EqualValues(t, count, got)
				p := must.Own(sum.Prepare(args...))(t)
				row.batch.rows[0][1] = 100
				got = must.Do(tvmffi.As[float64](p.Call()))(t)
				assert.EqualValues(t, count+100, got)
				row.batch.rows[0][1] = 0
				x := must.Own(dlpack.FromSlice(row.batch.rows[0][:]))(t)
				got = must.Do(tvmffi.As[float64](sum.Call(x)))(t)
				assert.EqualValues(t, 1, got)
			})
		}
	}
}
