//go:build cgo

package gorgonia

import (
	"fmt"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// An Option changes which tensors [Dense] accepts.
type Option uint8

// AllowTransposed also accepts fully transposed memory: column-major, with the first index fastest. gorgonia represents
// it as a lazy transpose (tensor.Dense.T) of row-major memory. Most of its operations are correct for lazy transposes
// (At, SetAt, Slice, Materialize, Clone, Add, Mul, MatMul, Sum, Concat, Apply, UseUnsafe, WithReuse of the first
// operand, and similar ones). The following operations of gorgonia v0.9.24 are wrong for every lazy transpose, and
// return no error:
//
//   - Repeat, SoftMax, LogSoftMax, Diag, Eq, CopyTo, WriteNpy, Data, and Argmax and Argmin over all axes take the
//     elements in memory order; so does MatMul of a tensor that SafeT returned;
//   - Reshape, Transpose, a second T that does not reverse the first one, RollAxis(axis, start, false), which calls T, and
//     MatMul with a lazy transpose as the tensor of WithReuse, move the elements to other places in the producer's memory;
//   - Add, Mul and similar operations overwrite their second operand before they read it, if it is the tensor of WithReuse;
//   - Apply gives the tensor of WithReuse the strides of row-major memory, so that its indices refer to other elements;
//   - TensorMul and Contract of more than two dimensions take the wrong elements;
//   - ByIndices panics.
//
// Every slice of transposed memory has gaps, even along the first axis. The package documentation lists the operations
// of gorgonia that are wrong for tensors with gaps.
const AllowTransposed Option = 1 << iota

// engine is gorgonia's standard engine with a reference to the owner of the memory. Tensors that gorgonia makes from a
// Dense have the same engine, so they keep the owner reachable.
type engine struct {
	tensor.StdEng
	owner *dlpack.Tensor
}

func (e *engine) release() { e.owner.Close() }

// Dense returns a gorgonia tensor on the memory of t, with the same shape and elements. int64 becomes tensor.Int64.
//
// These operations write in place, into the producer's memory: SetAt, Memset, Zero and CopyTo(d); Add, Lt, Neg, Apply
// and most other operations with tensor.UseUnsafe, or with d as the tensor of tensor.WithReuse or tensor.WithIncr; and
// MatMul, MatVecMul and Outer with WithReuse or WithIncr. All other results are in new memory; CopyTo(d) copies a
// result into the producer's memory. The following operations of gorgonia v0.9.24 are wrong in memory of any order, and
// return no error:
//
//   - SoftMax, LogSoftMax, SoftMaxB, LogSoftMaxB and ByIndices ignore WithReuse and WithIncr: their result is in new
//     memory, and the memory of the producer stays unchanged. MatMul, MatVecMul and Outer ignore UseUnsafe in the same
//     way;
//   - SoftMax, LogSoftMax, SoftMaxB, LogSoftMaxB, MaxBetween and MinBetween with UseUnsafe panic;
//   - ByIndices with UseUnsafe, and MatMul, MatVecMul and Outer with an operand as the tensor of WithReuse, overwrite elements before
//     they read them;
//   - SoftMax and LogSoftMax along the last axis return infinity or NaN for elements that differ by hundreds from the first
//     element of the tensor.
//
// t must be on the host, writable, aligned, row-major without gaps (or, with [AllowTransposed], fully transposed), and
// have at least one element, of a type that gorgonia has. Dense checks the elements of a bool tensor, and does not read
// other elements.
//
// Ownership: the Dense and its views share the memory until release, which may be called more than once; t stays the
// caller's and may be closed before. Lifetime: the Dense, its views and the slices that their Data returned must not be
// used after release; results in new memory may. Threads: any; gorgonia's own rules apply to the use of the Dense. On
// error: nothing is shared. [dlpack.ErrClosed], [dlpack.ErrDevice], [dlpack.ErrDType], [dlpack.ErrLayout],
// [dlpack.ErrReadOnly], [dlpack.ErrUnaligned], [dlpack.ErrNull], or [dlpack.ErrValue] for an invalid bool; the error
// names the call that makes t acceptable.
func Dense(t *dlpack.Tensor, options ...Option) (d *tensor.Dense, release func(), err error) {
	var allowed Option
	for _, o := range options {
		allowed |= o
	}
	n, transposed, err := admit(t, allowed)
	if err != nil {
		return nil, nil, fmt.Errorf("gorgonia: dense: %w", err)
	}
	owner, err := t.Share()
	if err != nil {
		return nil, nil, fmt.Errorf("gorgonia: dense: the tensor is closed: %w", err.(*dlpack.Error).Err)
	}
	kept := false
	defer func() {
		if !kept { // even if gorgonia panics
			owner.Close()
		}
	}()
	memory, _, err := owner.UnsafeBytes()
	if err == nil && n.held == tensor.Bool {
		err = checkBools(memory)
	}
	if err != nil {
		return nil, nil, err
	}
	e := &engine{owner: owner}
	d = tensor.New(n.of, tensor.WithEngine(e), func(x tensor.Tensor) {
		*x.(*tensor.Dense).Info() = rowMajor(t, transposed)
	}, tensor.FromMemory(uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory))))
	if transposed {
		if err := d.T(); err != nil {
			return nil, nil, fmt.Errorf("gorgonia: dense: %w", err)
		}
		// Without this, views that Slice makes of d are marked as having no gaps.
		ap := d.Info()
		*ap = tensor.MakeAP(ap.Shape(), ap.Strides(), tensor.MakeDataOrder(ap.DataOrder(), tensor.NonContiguous), 0)
	}
	kept = true
	return d, e.release, nil
}

// rowMajor returns the access pattern of row-major memory with the shape of t or, if turned is set, with that shape
// reversed. Its slices are not from gorgonia's pool, unlike the slices of SetShape. Dense.UT can put a slice into the
// pool twice, and shape and strides could then share memory.
func rowMajor(t *dlpack.Tensor, turned bool) tensor.AP {
	rank := t.Rank()
	lists := make([]int, 2*rank)
	shape, strides := lists[:rank:rank], lists[rank:]
	stride := 1
	for i := rank - 1; i >= 0; i-- {
		axis := i
		if turned {
			axis = rank - 1 - i
		}
		shape[i], strides[i] = int(t.Dim(axis)), stride
		stride *= shape[i]
	}
	return tensor.MakeAP(shape, strides, 0, 0)
}

// admit returns the type with which gorgonia stores the elements, and reports whether the layout is fully transposed.
// It returns an error for a tensor that [Dense] refuses.
func admit(t *dlpack.Tensor, allowed Option) (n *number, transposed bool, err error) {
	switch {
	case t == nil:
		return nil, false, fmt.Errorf("the tensor is nil: %w", dlpack.ErrNull)
	case t.RequireOpen() != nil:
		return nil, false, fmt.Errorf("the tensor is closed: %w", dlpack.ErrClosed)
	case !t.Device().HostReadable():
		return nil, false, fmt.Errorf("gorgonia cannot use memory on %v; its producer can copy it to the CPU: %w", t.Device(), dlpack.ErrDevice)
	}
	dt := t.DType()
	if n = carriedAs(dt); n == nil {
		return nil, false, fmt.Errorf("%v is not a type of gorgonia%s: %w", dt, remedy(dt), dlpack.ErrDType)
	}
	if t.ReadOnly() {
		how := "is read-only, but gorgonia may write to it; Copy makes a writable one"
		if t.Flags()&dlpack.ReadOnly == 0 {
			how = "is not known to be writable; import it with AssumeWritable, or Copy it"
		}
		return nil, false, fmt.Errorf("the memory %s: %w", how, dlpack.ErrReadOnly)
	}
	if t.NumElements() == 0 {
		return nil, false, fmt.Errorf("shape %v has no elements, and gorgonia panics on such tensors: %w", t.Shape(), dlpack.ErrLayout)
	}
	if !t.IsContiguous() {
		shape, strides := t.Shape(), t.Strides()
		switch transposed = layout.IsColumnMajor(shape, strides); {
		case !transposed:
			return nil, false, fmt.Errorf("strides %v of shape %v are not row-major without gaps; Contiguous(RowMajor) makes them so: %w", strides, shape, dlpack.ErrLayout)
		case allowed&AllowTransposed == 0:
			return nil, false, fmt.Errorf("strides %v of shape %v are transposed; Contiguous(RowMajor) makes them row-major, AllowTransposed accepts them as they are: %w", strides, shape, dlpack.ErrLayout)
		}
	}
	if align := n.held.Align(); t.Data()%uintptr(align) != 0 {
		return nil, false, fmt.Errorf("data at %#x is not aligned to %d bytes; Align copies it: %w", t.Data(), align, dlpack.ErrUnaligned)
	}
	return n, transposed, nil
}

// remedy returns the end of an error text. It names the call that converts numbers of type dt to a type that gorgonia
// has, and is "" if there is none.
func remedy(dt dlpack.DataType) string {
	to := dlpack.Float32
	switch dt.Code() {
	case dlpack.CodeOpaqueHandle:
		return ""
	case dlpack.CodeInt:
		to = dlpack.Int8
	case dlpack.CodeUInt:
		to = dlpack.Uint8
	case dlpack.CodeComplex:
		to = dlpack.Complex64
	}
	if dt.Lanes() > 1 {
		return fmt.Sprintf("; View makes its lanes a dimension of %v", dlpack.MakeDataType(dt.Code(), dt.Bits(), 1))
	}
	return fmt.Sprintf("; Convert makes it %v", to)
}

// checkBools returns an error for a byte other than 0 and 1, which is not a bool in Go.
func checkBools(memory []byte) error {
	for i, b := range memory {
		if b > 1 {
			return fmt.Errorf("gorgonia: dense: byte %d of a bool tensor is %d, but must be 0 or 1; Bitcast to uint8, then Convert to bool, turns it into true: %w", i, b, dlpack.ErrValue)
		}
	}
	return nil
}
