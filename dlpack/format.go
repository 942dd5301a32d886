//go:build cgo

package dlpack

import (
	"fmt"
	"io"
	"strings"
)

// Limits of the elements that %v prints. In a tensor with more than wholeElements elements, each dimension is shortened to
// its first and last edgeItems, as in NumPy. At most mostElements are printed in all.
const (
	wholeElements = 1000
	edgeItems     = 3
	mostElements  = 1000
)

// Format implements [fmt.Formatter]. %v prints the text of [Tensor.String] and then the elements. One dimension is printed in the
// same line, as in `int32[3] on cpu [1 2 3]`. Several dimensions are laid out as in NumPy, one line for each row:
//
//	float32[2 3] on cpu
//	[[  1 2.5  -3]
//	 [  4   5   6]]
//
// If a tensor has more than 1000 elements, only the first three and the last three of each dimension are printed, as in `[0 1 2 ...
// 998 999 1000]`, and at most 1000 elements in all.
//
// A width or a precision, as in %.2f and %.3v, and the verbs e, E, f, F, g and G apply to each float or complex element, as in package fmt.
// Integers and bools are then printed as with %v. The verbs b, d, o, O, x and X apply to each integer, and the verb t applies to each bool.
// %s and %+v print no elements; %+v prints the text of [Tensor.LogValue]. The other verbs print no elements if the tensor is closed, if the
// host cannot read its memory, or if an element is not a single number.
//
// Ownership: none. Lifetime: none. Threads: any, while nobody writes to the elements. On error: a byte of a bool tensor that is
// not 0 or 1 is printed as `?`.
func (t *Tensor) Format(f fmt.State, verb rune) {
	if !strings.ContainsRune("vseEfFgG", verb) && !t.hasVerb(verb) {
		fmt.Fprintf(f, "%%!%c(%s)", verb, t.String())
		return
	}
	if verb == 'v' && f.Flag('+') { // as package slog prints slices and structs
		io.WriteString(f, t.LogValue().String())
		return
	}
	io.WriteString(f, t.String())
	if verb == 's' || t.isNone() || t.acquire("format") != nil {
		return
	}
	defer t.done()
	if _, goType := holderOf(t.dtype); goType == nil || !t.device.HostReadable() {
		return
	}
	if t.NumElements() == 0 { // its other dimensions may have any size
		io.WriteString(f, " []")
		return
	}
	p := printer{out: io.Discard, t: t, format: t.elementFormat(f, verb), index: make([]int64, t.rank), short: t.NumElements() > wholeElements}
	before := " "
	if t.rank > 1 {
		before = "\n"
		p.printAll() // finds the width
		p.width = p.widest
	}
	io.WriteString(f, before)
	p.out = f
	p.printAll()
}

// hasVerb reports whether a verb is only for integers or only for bools, and the elements have that type.
func (t *Tensor) hasVerb(verb rune) bool {
	switch {
	case t.isNone():
		return false
	case t.dtype.Code() == CodeInt, t.dtype.Code() == CodeUInt:
		return strings.ContainsRune("bdoOxX", verb)
	}
	return t.dtype.Code() == CodeBool && verb == 't'
}

// elementFormat returns the format of one element. It ignores the flag of %#v.
func (t *Tensor) elementFormat(f fmt.State, verb rune) string {
	_, width := f.Width()
	_, precision := f.Precision()
	switch code := t.dtype.Code(); {
	case t.hasVerb(verb):
	case code == CodeInt, code == CodeUInt, code == CodeBool, verb == 'v' && !width && !precision:
		return "%v"
	}
	return fmt.FormatString(f, verb)
}

// A printer prints the elements of a tensor.
type printer struct {
	out    io.Writer
	t      *Tensor
	format string // the format of an element
	index  []int64
	width  int  // the width of an element; shorter ones are padded
	widest int  // the width of the widest element that was printed
	left   int  // how many elements may still be printed
	short  bool // whether long dimensions are shortened
}

func (p *printer) printAll() {
	p.left = mostElements
	p.print(0)
}

// print prints all elements whose first d indices equal the first d of p.index.
func (p *printer) print(d int) {
	if d == len(p.index) {
		p.left--
		text := "?"
		if value, err := p.t.At(p.index...); err == nil {
			text = fmt.Sprintf(p.format, value)
		}
		p.widest = max(p.widest, len(text))
		fmt.Fprintf(p.out, "%*s", p.width, text)
		return
	}
	between := " "
	if inner := len(p.index) - d - 1; inner > 0 { // an empty line between matrices, two between stacks of them, and so on
		between = strings.Repeat("\n", inner) + strings.Repeat(" ", d+1)
	}
	io.WriteString(p.out, "[")
	size := p.t.Dim(d)
	for i := int64(0); i < size; i++ {
		if i > 0 {
			io.WriteString(p.out, between)
		}
		if p.left == 0 {
			io.WriteString(p.out, "...")
			break
		}
		if p.short && i == edgeItems && size > 2*edgeItems {
			io.WriteString(p.out, "..."+between)
			i = size - edgeItems
		}
		p.index[d] = i
		p.print(d + 1)
	}
	io.WriteString(p.out, "]")
}
