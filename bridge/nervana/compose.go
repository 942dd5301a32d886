//go:build cgo

package nervana

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// Compose writes the elements that c selects to dst. sources[k] is source k of c, and must have the data type of dst.
// The layouts in c count from element (0, ..., 0) of a source, like the layouts of [dlpack.Tensor.Layout]. A source
// must not lie in the memory of dst, except for elements that are written to their own places. After an error, dst may
// be partly written.
//
// Ownership: unchanged. Lifetime: nothing is kept. Threads: any, while no other goroutine writes to the sources or uses
// dst. On error: those of [dlpack.Tensor.Apply] and [dlpack.Tensor.CopyTo], and [dlpack.ErrLayout] if dst and c have
// different shapes, elements of dst overlap, a source is missing, or a source lies in dst.
func Compose(dst *dlpack.Tensor, c Composite, sources ...*dlpack.Tensor) error {
	const op = "compose"
	held, err := dst.Share() // keeps the memory if another goroutine closes dst meanwhile
	if err != nil {
		return wrap(op+": destination", err)
	}
	defer held.Close()
	whole := held.Layout()
	if held.Data() != 0 && !held.IsContiguous() && !held.ReadOnly() && layout.Overlaps(whole.Shape, whole.Strides) {
		return newError(op, dlpack.ErrLayout, "elements of the destination overlap: strides %v of shape %v; Copy makes a destination without overlap", whole.Strides, whole.Shape)
	}
	err = c.Into(whole, func(part, selected layout.Layout, source int) error {
		if source < 0 || source >= len(sources) || sources[source] == nil {
			return newError(op, dlpack.ErrLayout, "source %d of %d is missing or nil", source, len(sources))
		}
		opOfSource := fmt.Sprintf("%s: source %d", op, source)
		from, err := viewAs(sources[source], selected)
		if err != nil {
			return wrap(opOfSource, err)
		}
		defer from.Close()
		to, err := viewAs(held, part)
		if err != nil {
			return wrap(op, err)
		}
		defer to.Close()
		// Pieces are written one after another. If the source of this piece lay in dst, an earlier piece might have overwritten it.
		if from.Device().HostReadable() && to.Device().HostReadable() && !sameElements(from, to) && !from.Disjoint(held) {
			return newError(op, dlpack.ErrLayout, "source %d lies in the memory of the destination; Copy makes a source apart from it", source)
		}
		return wrap(opOfSource, from.CopyTo(to))
	})
	return wrap(op, err)
}

// viewAs returns the view of t with the given layout.
func viewAs(t *dlpack.Tensor, l layout.Layout) (*dlpack.Tensor, error) {
	return t.Apply(func(v *layout.Layout) error {
		v.Set(l)
		return nil
	})
}

// sameElements reports whether two tensors of the same shape refer to the same elements in the same order.
func sameElements(a, b *dlpack.Tensor) bool {
	padded := (a.Flags() ^ b.Flags()) & dlpack.SubbytePadded
	return a.Data() == b.Data() && a.DType() == b.DType() && padded == 0 && sameStrides(a.Shape(), a.Strides(), b.Strides())
}
