//go:build cgo

package dlpack_test

import (
	"errors"
	"fmt"
	"log"
	"runtime"
	"unsafe"
	"weak"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// consume stands for C code that receives a DLManagedTensorVersioned: it owns the tensor, reads it, and calls its
// deleter.
func consume(managed unsafe.Pointer) {
	t, err := dlpack.Import(managed)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println("consumer sees", t)
}

// This is the program at the beginning of the package documentation.
func Example() {
	t, err := dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2) // on the memory of the slice
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	managed, err := t.Export() // a DLManagedTensorVersioned *, to pass to a C function
	if err != nil {
		log.Fatal(err)
	}
	u, err := dlpack.Import(managed) // takes over what a C function returns
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()
	err = dlpack.Read(u, func(x []float32) error { fmt.Println(x); return nil })
	// Output: [1 2 3 4]
}

func ExampleNew() {
	t, err := dlpack.New(dlpack.BFloat16, 3, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println(t, t.NumBytes(), t.Alignment() >= dlpack.AllocAlignment)
	// Output:
	// bfloat16[3 4] on cpu
	// [[0 0 0 0]
	//  [0 0 0 0]
	//  [0 0 0 0]] 24 true
}

func ExampleFromReadOnly() {
	t, _ := dlpack.FromReadOnly([]int32{1, 2, 3})
	defer t.Close()
	_, err := t.ExportLegacy()
	fmt.Println(err)
	// Output: dlpack: export legacy: the tensor is read-only, but the legacy form cannot state this; Copy makes a writable one
}

func ExampleFromBytes() {
	// Two rows of three elements. The second index is the fastest, and runs backwards.
	t, _ := dlpack.FromBytes([]byte{3, 2, 1, 6, 5, 4}, dlpack.Spec{
		DType: dlpack.Uint8, Shape: []int64{2, 3}, Strides: []int64{3, -1}, ByteOffset: 2,
	})
	defer t.Close()
	elements, _ := t.AppendBytes(nil)
	fmt.Println(t, elements)
	// Output:
	// uint8[2 3] strides [3 -1] on cpu
	// [[1 2 3]
	//  [4 5 6]] [1 2 3 4 5 6]
}

func ExampleImport() {
	t, _ := dlpack.FromSlice([]int64{7, 8})
	m, _ := t.Export()
	t.Close() // the export lives on
	consume(m)
	// Output: consumer sees int64[2] on cpu [7 8]
}

func ExampleImportLegacy() {
	t, _ := dlpack.FromSlice([]int64{7, 8})
	defer t.Close()
	m, _ := t.ExportLegacy()
	u, _ := dlpack.ImportLegacy(m, dlpack.AssumeWritable)
	defer u.Close()
	fmt.Println(u)
	// Output: int64[2] on cpu [7 8]
}

func ExampleBorrow() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3})
	defer t.Close()
	m, _ := t.Export()
	defer dlpack.Release(m)
	argument := unsafe.Add(m, 32) // &m->dl_tensor, as a C caller passes it

	b, _ := dlpack.Borrow(argument, dlpack.AssumeWritable)
	defer b.Close()
	dlpack.SetAt[float32](b, 10, 0)
	x, _ := t.At(0)
	_, err := b.Export()
	fmt.Println(x, errors.Is(err, dlpack.ErrBorrowed))
	// Output: 10 true
}

func ExampleLend() {
	socket, _ := dlpack.New(dlpack.Uint8, 8) // stands for a buffer of a C library
	defer socket.Close()
	buffer, _, _ := socket.UnsafeBytes()

	bytes, _ := dlpack.Lend(unsafe.Pointer(&buffer[0]), 8, false, nil, nil) // a release function would notify C at the end
	defer bytes.Close()
	t, _ := bytes.Bitcast(dlpack.Float64)
	defer t.Close()
	fmt.Println(bytes, t, t.Data() == socket.Data())
	// Output: uint8[8] on cpu [0 0 0 0 0 0 0 0] float64[1] on cpu [0] true
}

func ExampleTensor_Export() {
	t, _ := dlpack.New(dlpack.Float64, 2)
	m, _ := t.Export()
	t.Close()
	dlpack.Release(m) // or the consumer, on any thread: m->deleter(m)
	_, err := t.Export()
	fmt.Println(errors.Is(err, dlpack.ErrClosed))
	// Output: true
}

func ExampleTensor_ExportCopy() {
	t, _ := dlpack.FromSlice([]int64{7, 8})
	defer t.Close()
	m, _ := t.ExportCopy()
	u, _ := dlpack.Import(m)
	defer u.Close()
	fmt.Println(u.Flags()&dlpack.IsCopied != 0)
	// Output: true
}

func ExampleTensor_View() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer t.Close()
	v, _ := t.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{3, 2}, Strides: []int64{1, 3}})
	defer v.Close()
	err := dlpack.Read(v, func(values []float32) error { return nil })
	fmt.Println(v)
	fmt.Println(err)
	// Output:
	// float32[3 2] strides [1 3] on cpu
	// [[1 4]
	//  [2 5]
	//  [3 6]]
	// dlpack: read: strides [1 3] of shape [3 2] are not row-major without gaps; Contiguous(RowMajor) makes them so
}

func ExampleTensor_Copy() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer t.Close()
	v, _ := t.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{3, 2}, Strides: []int64{1, 3}})
	defer v.Close()
	c, _ := v.Copy()
	defer c.Close()
	fmt.Println(c)
	// Output:
	// float32[3 2] on cpu
	// [[1 4]
	//  [2 5]
	//  [3 6]]
}

func ExampleTensor_Align() {
	t, _ := dlpack.FromBytes(make([]byte, 9), dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}, ByteOffset: 1})
	defer t.Close()
	a, copied, _ := t.Align(64)
	defer a.Close()
	fmt.Println(copied, a.RequireAlign(64))
	// Output: true <nil>
}

func ExampleRead() {
	t, _ := dlpack.FromReadOnly([]float32{1, 2, 3, 4}, 2, 2)
	defer t.Close()
	sum := float32(0)
	err := dlpack.Read(t, func(values []float32) error {
		for _, v := range values {
			sum += v
		}
		return nil
	})
	fmt.Println(sum, err)
	// Output: 10 <nil>
}

func ExampleReadStrided() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer t.Close()
	columns, _ := t.Transpose()
	defer columns.Close()
	err := dlpack.ReadStrided(columns, func(x dlpack.Strided[float32]) error {
		for i := range x.Shape[0] {
			sum := float32(0)
			for j := range x.Shape[1] {
				sum += x.Data[x.Start+i*x.Strides[0]+j*x.Strides[1]]
			}
			fmt.Println("column", i, "has the sum", sum)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// column 0 has the sum 5
	// column 1 has the sum 7
	// column 2 has the sum 9
	// <nil>
}

func ExampleStrided_Rows() {
	t, _ := dlpack.FromSlice([]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3)
	defer t.Close()
	part, _ := t.Slice(layout.All(), layout.Until(2))
	defer part.Close()
	err := dlpack.ReadStrided(part, func(x dlpack.Strided[uint8]) error {
		rows, err := x.Rows()
		if err != nil {
			return err
		}
		for index, row := range rows {
			fmt.Println(index, row)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// [0] [1 2]
	// [1] [4 5]
	// [2] [7 8]
	// <nil>
}

func ExampleStrided_All() {
	t, _ := dlpack.FromSlice([]int32{1, 2, 3, 4}, 2, 2)
	defer t.Close()
	columns, _ := t.Transpose()
	defer columns.Close()
	err := dlpack.ReadStrided(columns, func(x dlpack.Strided[int32]) error {
		for index, value := range x.All() {
			fmt.Println(index, value)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// [0 0] 1
	// [0 1] 3
	// [1 0] 2
	// [1 1] 4
	// <nil>
}

func ExampleTensor_Require() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer t.Close()
	fmt.Println(t.Require(dlpack.Float32, -1, 3))
	fmt.Println(t.Require(dlpack.Float32, -1, 4))
	fmt.Println(t.Require(dlpack.Int64, -1, 3))
	// Output:
	// <nil>
	// dlpack: require: dimension 1 of the shape [2 3] has size 3, want 4
	// dlpack: require: the tensor has float32, want int64; Convert makes a copy of that type
}

func ExampleValues() {
	t, _ := dlpack.New(dlpack.Int32, 2, 2)
	defer t.Close()
	values, _ := dlpack.Values[int32](t)
	values[3] = 1
	_, err := dlpack.Values[float32](t)
	fmt.Println(values, err)
	// Output: [0 0 0 1] dlpack: values: the tensor has int32, want float32; Convert makes a copy of that type
}

func ExampleUnsafeValues() {
	t, _ := dlpack.FromReadOnly([]int32{1, 2, 3})
	defer t.Close()
	_, err := dlpack.Values[int32](t)
	values, _ := dlpack.UnsafeValues[int32](t) // must not be written to
	fmt.Println(values, errors.Is(err, dlpack.ErrReadOnly))
	// Output: [1 2 3] true
}

func ExampleTensor_AsBytes() {
	t, _ := dlpack.FromSlice([]uint16{1, 2})
	defer t.Close()
	b, _ := t.AsBytes()
	defer b.Close()
	fmt.Println(b)
	// Output: uint8[4] on cpu [1 0 2 0]
}

func ExampleReadStats() {
	t, _ := dlpack.New(dlpack.Int32, 2)
	before := dlpack.ReadStats()
	m, _ := t.Export()
	t.Close()
	fmt.Println(dlpack.ReadStats().Exports - before.Exports)
	dlpack.Release(m)
	fmt.Println(dlpack.ReadStats().Exports - before.Exports)
	// Output:
	// 1
	// 0
}

func ExampleLive() {
	defer dlpack.SetLedger(dlpack.SetLedger(true)) // or DLBRIDGE_LEDGER=1 in the environment
	t, _ := dlpack.New(dlpack.Float32, 2, 3)
	for _, r := range dlpack.Live() {
		fmt.Println(r.Kind, "of", r.DType, r.Shape) // r.Caller says where
	}
	t.Close()
	fmt.Println(len(dlpack.Live()))
	// Output:
	// allocation of float32 [2 3]
	// 0
}

func ExampleReleaseLegacy() {
	t, _ := dlpack.FromSlice([]int64{7, 8})
	before := dlpack.ReadStats().Exports
	m, _ := t.ExportLegacy()
	t.Close()
	fmt.Println(dlpack.ReadStats().Exports - before)
	dlpack.ReleaseLegacy(m) // no consumer takes it
	fmt.Println(dlpack.ReadStats().Exports - before)
	// Output:
	// 1
	// 0
}

func ExampleTensor_UnsafeBytes() {
	t, _ := dlpack.FromSlice([]uint8{1, 2, 3, 4, 5, 6, 7, 8})
	defer t.Close()
	v, _ := t.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{3}, Strides: []int64{-2}, ByteOffset: 6})
	defer v.Close()
	touched, start, _ := v.UnsafeBytes() // valid while v is open
	fmt.Println(touched, start, touched[start])
	// Output: [3 4 5 6 7] 4 7
}

func ExampleReap() {
	data := make([]byte, 64<<10)
	alive := weak.Make(&data[0])
	t, _ := dlpack.FromSlice(data)
	m, _ := t.Export()
	t.Close()
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1) // a consumer in C releases it
	dlpack.Reap()                                      // the next export does the same, or a garbage collection
	runtime.GC()
	fmt.Println("still pinned:", alive.Value() != nil)
	// Output: still pinned: false
}

func ExampleWakeAt() {
	last := dlpack.WakeAt(1) // unpin memory as soon as a consumer releases it
	defer dlpack.WakeAt(last)
	fmt.Println(last>>10, "KiB until now")
	// Output: 1024 KiB until now
}

// pool is an [dlpack.Allocator] for buffers of up to 1 KiB.
type pool struct{ buffers chan []byte }

func (p pool) Allocate(size int) ([]byte, error) {
	if size > 1024 {
		return nil, fmt.Errorf("%d bytes do not fit in a buffer", size)
	}
	select {
	case b := <-p.buffers:
		return b, nil
	default:
		return make([]byte, 1024), nil
	}
}

func (p pool) Free(b []byte) { p.buffers <- b }

func ExampleNewFrom() {
	p := pool{make(chan []byte, 16)}
	t, err := dlpack.NewFrom(p, dlpack.Float32, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t)
	m, err := t.Export() // as to Python
	if err != nil {
		fmt.Println(err)
		return
	}
	t.Close()
	fmt.Println("free buffers:", len(p.buffers))
	dlpack.Release(m) // the consumer is done
	fmt.Println("back:", len(<-p.buffers), "bytes")
	_, err = dlpack.NewFrom(p, dlpack.Float32, 1000)
	fmt.Println(err)
	// Output:
	// float32[2 3] on cpu
	// [[0 0 0]
	//  [0 0 0]]
	// free buffers: 0
	// back: 1024 bytes
	// dlpack: new from: allocate 4000 bytes: 4000 bytes do not fit in a buffer
}

func ExampleTensor_OnRelease() {
	free := make(chan []float32, 1)
	buffer := []float32{1, 2, 3}
	t, err := dlpack.FromSlice(buffer)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := t.OnRelease(func() { free <- buffer }); err != nil {
		fmt.Println(err)
		return
	}
	m, err := t.Export()
	if err != nil {
		fmt.Println(err)
		return
	}
	t.Close()
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1) // a thread of C calls the deleter
	fmt.Println("nobody holds", <-free)
	// Output: nobody holds [1 2 3]
}
