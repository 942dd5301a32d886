package viewtest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A View is a call of a method that both layout.Layout and dlpack.Tensor have, and the expected result.
type View struct {
	Method string
	Args   []any
	// Want has the model of the view, or two models for Split.
	Want []Model
	// Err is the cause of the error if the call is invalid for every layout of this shape. If Err is nil, the call may still
	// return layout.ErrCopy for some layouts.
	Err error
}

func (v View) String() string { return fmt.Sprintf("%s%v", v.Method, v.Args) }

// Call calls the method of x and returns its results.
func (v View) Call(x any) (results []any) {
	method := reflect.ValueOf(x).MethodByName(v.Method)
	var args []reflect.Value
	for _, arg := range v.Args {
		args = append(args, reflect.ValueOf(arg))
	}
	call := method.Call
	if method.Type().IsVariadic() { // the last argument is a slice
		call = method.CallSlice
	}
	for _, result := range call(args) {
		results = append(results, result.Interface())
	}
	return results
}

// Layouts makes the view of a layout: it changes l, except for Split, whose results are new layouts.
func (v View) Layouts(l *layout.Layout) ([]layout.Layout, error) {
	results := v.Call(l)
	err, _ := results[len(results)-1].(error)
	if parts, ok := results[0].([]layout.Layout); ok {
		return parts, err
	}
	return []layout.Layout{*l}, err
}

// Choices makes decisions from bytes, one for each byte. When no bytes are left, it chooses 0.
type Choices []byte

// Below returns a number from 0 to n-1.
func (c *Choices) Below(n int) int {
	if len(*c) == 0 || n <= 0 {
		return 0
	}
	choice := int((*c)[0]) % n
	*c = (*c)[1:]
	return choice
}

// Between returns a number from least to most.
func (c *Choices) Between(least, most int64) int64 { return least + int64(c.Below(int(most-least+1))) }

// axis chooses a dimension. given is the number for a method, and may count from the end. d is the number counted from the
// start. n is the size of the dimension. If the shape has no dimensions, d is -1 and n is 0.
func (c *Choices) axis(shape []int64) (given, d int, n int64) {
	rank := len(shape)
	given = int(c.Between(int64(-rank), int64(max(rank, 1)-1)))
	if rank == 0 {
		return given, -1, 0
	}
	d = (given + rank) % rank
	return given, d, shape[d]
}

// View chooses a view of a layout or tensor with this model.
func (c *Choices) View(m Model) View {
	choose := []func(c *Choices, m Model) View{
		(*Choices).slice, (*Choices).index, (*Choices).narrow, (*Choices).split, (*Choices).transpose, (*Choices).flip, (*Choices).squeeze,
		(*Choices).expand, (*Choices).broadcast, (*Choices).diagonal, (*Choices).windows, (*Choices).reshape, (*Choices).reshape, (*Choices).flat,
	}
	return choose[c.Below(len(choose))](c, m)
}

// slice chooses ranges, indices and new dimensions.
func (c *Choices) slice(m Model) View {
	// A source describes one dimension of m: the selected indices, and the dimension of the view that counts them, or -1.
	type source struct {
		taken []int64
		axis  int
	}
	var (
		index   []layout.Index
		shape   []int64
		sources []source
		err     error
	)
	take := func(taken []int64) {
		sources = append(sources, source{taken, len(shape)})
		shape = append(shape, int64(len(taken)))
	}
	rank := len(m.Shape)
	// An ellipsis stands for any number of dimensions, including none. Without one, the last dimensions may have no index.
	ellipsis, many, indexed := -1, 0, rank
	switch c.Below(4) {
	case 0:
		ellipsis = c.Below(rank + 1)
		many = c.Below(rank - ellipsis + 1)
	case 1:
		indexed = c.Below(rank + 1)
	}
	for d := range rank + 1 {
		if d == ellipsis {
			index = append(index, layout.Ellipsis())
		}
		inside := ellipsis <= d && d < ellipsis+many
		if d <= indexed && !inside {
			for range max(c.Below(8)-5, 0) {
				index, shape = append(index, layout.NewAxis()), append(shape, 1)
			}
		}
		if d == rank {
			break
		}
		if d >= indexed || inside {
			take(python(m.Shape[d], nil, nil, 1))
			continue
		}
		n := m.Shape[d]
		if c.Below(6) == 0 {
			i := c.Between(-n-1, n)
			index = append(index, layout.At(i))
			if i < -n || i >= n {
				err = layout.ErrIndex
			}
			sources = append(sources, source{[]int64{fromStart(i, n)}, -1})
			continue
		}
		start, stop, step := c.Between(-n-2, n+2), c.Between(-n-2, n+2), c.Between(1, 3)
		if c.Below(2) == 0 {
			step = -step
		}
		var x layout.Index
		var taken []int64
		switch c.Below(6) {
		case 0:
			x, taken = layout.All(), python(n, nil, nil, step)
		case 1:
			x, taken = layout.From(start), python(n, &start, nil, step)
		case 2:
			x, taken = layout.Until(stop), python(n, nil, &stop, step)
		default:
			x, taken = layout.Range(start, stop), python(n, &start, &stop, step)
		}
		index = append(index, x.By(step))
		take(taken)
	}
	v := View{Method: "Slice", Args: []any{index}, Err: err}
	if err == nil {
		v.Want = []Model{m.gather(shape, func(index []int64) (from []int64) {
			for _, s := range sources {
				if s.axis < 0 {
					from = append(from, s.taken[0])
				} else {
					from = append(from, s.taken[index[s.axis]])
				}
			}
			return from
		})}
	}
	return v
}

// python returns the indices that a slice selects in a dimension of size n, by Python's rules.
func python(n int64, start, stop *int64, step int64) []int64 {
	first := int64(0)
	if step < 0 {
		first = n - 1
	}
	if start != nil {
		if first = fromStart(*start, n); step > 0 {
			first = max(first, 0)
		} else {
			first = min(first, n-1)
		}
	}
	taken := []int64{}
	for i := first; 0 <= i && i < n; i += step {
		if stop != nil {
			if end := fromStart(*stop, n); step > 0 && i >= end || step < 0 && i <= end {
				break
			}
		}
		taken = append(taken, i)
	}
	return taken
}

// fromStart returns index i counted from the start. The result is below 0 if i counts from the end and is outside the
// dimension.
func fromStart(i, n int64) int64 {
	if i < 0 {
		return i + n
	}
	return i
}

func (c *Choices) index(m Model) View {
	var given, first []int64
	v := View{Method: "Index"}
	for d := range c.Below(len(m.Shape) + 1) {
		n := m.Shape[d]
		i := c.Between(-n-1, n)
		given, first = append(given, i), append(first, fromStart(i, n))
		if i < -n || i >= n {
			v.Err = layout.ErrIndex
		}
	}
	v.Args = []any{given}
	if v.Err == nil {
		v.Want = []Model{m.gather(m.Shape[len(first):], func(index []int64) []int64 { return slices.Concat(first, index) })}
	}
	return v
}

func (c *Choices) narrow(m Model) View {
	given, d, n := c.axis(m.Shape)
	start, size := c.Between(-n, n+1), c.Between(0, n)
	v := View{Method: "Narrow", Args: []any{given, start, size}}
	switch {
	case d < 0:
		v.Err = layout.ErrAxis
	case fromStart(start, n)+size > n:
		v.Err = layout.ErrIndex
	default:
		v.Want = []Model{m.part(d, fromStart(start, n), size)}
	}
	return v
}

// part returns the model of size indices of a dimension, beginning with start.
func (m Model) part(d int, start, size int64) Model {
	shape := slices.Clone(m.Shape)
	shape[d] = size
	return m.gather(shape, func(index []int64) []int64 {
		index[d] += start
		return index
	})
}

func (c *Choices) split(m Model) View {
	given, d, n := c.axis(m.Shape)
	cut := c.Between(0, n)
	v := View{Method: "Split", Args: []any{given, []int64{cut, n - cut}}}
	if d < 0 {
		v.Err = layout.ErrAxis
	} else {
		v.Want = []Model{m.part(d, 0, cut), m.part(d, cut, n-cut)}
	}
	return v
}

func (c *Choices) transpose(m Model) View {
	rank := len(m.Shape)
	order, given := make([]int, rank), []int(nil)
	for d := range order {
		order[d] = rank - 1 - d
	}
	if c.Below(4) > 0 {
		order = order[:0]
		for d := range rank {
			order = slices.Insert(order, c.Below(d+1), d)
		}
		for _, d := range order {
			given = append(given, d-rank*c.Below(2))
		}
	}
	shape := make([]int64, rank)
	for k, d := range order {
		shape[k] = m.Shape[d]
	}
	return View{Method: "Transpose", Args: []any{given}, Want: []Model{m.gather(shape, func(index []int64) []int64 {
		from := make([]int64, rank)
		for k, d := range order {
			from[d] = index[k]
		}
		return from
	})}}
}

func (c *Choices) flip(m Model) View {
	var axes []int
	rank := len(m.Shape)
	for d := range rank {
		if c.Below(2) == 0 {
			axes = append(axes, d-rank*c.Below(2))
		}
	}
	return View{Method: "Flip", Args: []any{axes}, Want: []Model{m.gather(m.Shape, func(index []int64) []int64 {
		for d, n := range m.Shape {
			if len(axes) == 0 || slices.Contains(axes, d) || slices.Contains(axes, d-rank) {
				index[d] = n - 1 - index[d]
			}
		}
		return index
	})}}
}

func (c *Choices) squeeze(m Model) View {
	var axes []int
	var shape []int64
	for d, n := range m.Shape {
		if n == 1 && c.Below(2) == 0 {
			axes = append(axes, d)
		} else {
			shape = append(shape, n)
		}
	}
	if len(axes) == 0 {
		shape = slices.DeleteFunc(shape, func(n int64) bool { return n == 1 })
	}
	return View{Method: "Squeeze", Args: []any{axes}, Want: []Model{{shape, m.Positions}}}
}

func (c *Choices) expand(m Model) View {
	at := c.Below(len(m.Shape) + 1)
	return View{Method: "Expand", Args: []any{[]int{at}}, Want: []Model{{slices.Insert(slices.Clone(m.Shape), at, 1), m.Positions}}}
}

func (c *Choices) broadcast(m Model) View {
	shape := slices.Clone(m.Shape)
	for d, n := range shape {
		if n == 1 && c.Below(2) == 0 {
			shape[d] = c.Between(0, 3)
		}
	}
	further := c.Below(3)
	for range further {
		shape = slices.Insert(shape, 0, c.Between(0, 3))
	}
	return View{Method: "BroadcastTo", Args: []any{shape}, Want: []Model{m.gather(shape, func(index []int64) []int64 {
		index = index[further:]
		for d, n := range m.Shape {
			index[d] = min(index[d], n-1)
		}
		return index
	})}}
}

func (c *Choices) diagonal(m Model) View {
	givenA, a, rows := c.axis(m.Shape)
	givenB, b, columns := c.axis(m.Shape)
	k := c.Between(-3, 3)
	v := View{Method: "Diagonal", Args: []any{k, givenA, givenB}}
	if a == b { // true also without dimensions
		v.Err = layout.ErrAxis
		return v
	}
	top, left := max(-k, 0), max(k, 0) // where the diagonal begins
	var shape []int64
	for d, n := range m.Shape {
		if d != a && d != b {
			shape = append(shape, n)
		}
	}
	shape = append(shape, max(min(rows-top, columns-left), 0))
	v.Want = []Model{m.gather(shape, func(index []int64) []int64 {
		i := index[len(index)-1]
		from := make([]int64, len(m.Shape))
		for d := range from {
			switch d {
			case a:
				from[d] = top + i
			case b:
				from[d] = left + i
			default:
				from[d], index = index[0], index[1:]
			}
		}
		return from
	})}
	return v
}

func (c *Choices) windows(m Model) View {
	given, d, n := c.axis(m.Shape)
	size, step, dilation := c.Between(1, 3), c.Between(1, 3), c.Between(1, 2)
	v := View{Method: "Windows", Args: []any{given, size, step, dilation}}
	reach := (size - 1) * dilation
	switch {
	case d < 0:
		v.Err = layout.ErrAxis
	case reach >= n:
		v.Err = layout.ErrShape
	default:
		shape := append(slices.Clone(m.Shape), size)
		shape[d] = (n-1-reach)/step + 1
		v.Want = []Model{m.gather(shape, func(index []int64) []int64 {
			last := len(index) - 1
			index[d] = index[d]*step + index[last]*dilation
			return index[:last]
		})}
	}
	return v
}

func (c *Choices) reshape(m Model) View {
	var shape []int64
	rest := int64(len(m.Positions))
	for range c.Below(5) {
		if n := c.Between(1, 6); rest%n == 0 {
			shape, rest = append(shape, n), rest/n
		}
	}
	if rest != 1 || c.Below(2) == 0 {
		shape = append(shape, rest)
	}
	given := slices.Clone(shape)
	if len(m.Positions) > 0 && len(shape) > 0 && c.Below(3) == 0 {
		given[c.Below(len(given))] = -1
	}
	return View{Method: "Reshape", Args: []any{given}, Want: []Model{{shape, m.Positions}}}
}

// flat chooses one of the three methods that merge dimensions.
func (c *Choices) flat(m Model) View {
	rank, to := len(m.Shape), 1+c.Below(4)
	v := View{Method: "FlatOuter", Args: []any{to}}
	begin := 0 // the dimension of m into which all earlier ones are merged; negative for new dimensions of size 1
	switch c.Below(3) {
	case 0:
		v.Method, begin = "FlatInner", rank-to
	case 1:
		begin = c.Below(rank + 1)
		v.Method, v.Args = "FlatEnds", []any{begin, to}
		if begin == rank {
			v.Err = layout.ErrAxis
		}
	}
	shape := slices.Repeat([]int64{1}, to)
	for d, n := range m.Shape {
		shape[min(max(d-begin, 0), to-1)] *= n
	}
	if v.Err == nil {
		v.Want = []Model{{shape, m.Positions}}
	}
	return v
}
