//go:build cgo

package dlpack

import (
	"fmt"
	"io"
)

// How many elements %v prints: each dimension of a tensor with more than wholeElements elements is shortened to its first and
// last edgeItems, as NumPy does, and at most mostElements are printed in all.
const (
	wholeElements = 1000
	edgeItems     = 3
	mostElements  = 1000
)

// Format implements [fmt.Formatter]. %v prints what [Tensor.String] returns and then the elements, as in
// `float32[2 3] on cpu [[1 2 3] [4 5 6]]`. Large tensors are shortened: `[0 1 2 ... 997 998 999]`. %s leaves out the elements.
// So does %v for a closed tensor, for memory that the host cannot read, and for elements that are not single numbers.
//
// Ownership: none. Lifetime: none. Threads: any, while nobody writes to the elements. On error: a byte of a bool tensor that is
// not 0 or 1 is printed as `?`.
func (t *Tensor) Format(f fmt.State, verb rune) {
	switch verb {
	case 'v', 's':
		io.WriteString(f, t.String())
	default:
		fmt.Fprintf(f, "%%!%c(%s)", verb, t.String())
		return
	}
	if verb == 's' || t.isNone() || t.acquire("format") != nil {
		return
	}
	defer t.done()
	if _, goType := holderOf(t.dtype); goType == nil || !t.device.HostReadable() {
		return
	}
	if t.NumElements() == 0 { // its other dimensions may be of any size
		io.WriteString(f, " []")
		return
	}
	p := printer{out: f, t: t, index: make([]int64, t.rank), left: mostElements, short: t.NumElements() > wholeElements}
	io.WriteString(f, " ")
	p.print(0)
}

// A printer prints the elements of a tensor.
type printer struct {
	out   io.Writer
	t     *Tensor
	index []int64
	left  int  // how many elements may still be printed
	short bool // whether long dimensions are shortened
}

// print prints all elements whose first d indices equal the first d of p.index.
func (p *printer) print(d int) {
	if d == len(p.index) {
		p.left--
		if value, err := p.t.At(p.index...); err != nil {
			io.WriteString(p.out, "?")
		} else {
			fmt.Fprint(p.out, value)
		}
		return
	}
	io.WriteString(p.out, "[")
	size := p.t.Dim(d)
	for i := int64(0); i < size; i++ {
		if i > 0 {
			io.WriteString(p.out, " ")
		}
		if p.left == 0 {
			io.WriteString(p.out, "...")
			break
		}
		if p.short && i == edgeItems && size > 2*edgeItems {
			io.WriteString(p.out, "... ")
			i = size - edgeItems
		}
		p.index[d] = i
		p.print(d + 1)
	}
	io.WriteString(p.out, "]")
}
