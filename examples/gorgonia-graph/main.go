// Gorgonia-graph computes y = x w + b with a graph of gorgonia. Its placeholder x, variable w and constant b are described
// before they have memory, and are then bound to the memory of another producer.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// memory returns a tensor in C memory, as a producer in another language would export it, and a slice through which
// that producer writes to the memory.
func memory(shape []int64, values ...float64) (*dlpack.Tensor, []float64, error) {
	t, err := dlpack.New(dlpack.Float64, shape...)
	if err != nil {
		return nil, nil, err
	}
	theirs, err := dlpack.Values[float64](t)
	copy(theirs, values)
	return t, theirs, err
}

// describe returns the description of a node. A size of -1 is unknown.
func describe(role nervana.Role, shape ...int64) *nervana.Description {
	s, err := layout.NewPartialShape(shape...)
	if err != nil {
		panic(err)
	}
	return &nervana.Description{DType: dlpack.Float64, Shape: s, Role: role}
}

func story(out io.Writer) error {
	x, w, b := describe(nervana.Placeholder, -1, 3), describe(nervana.Variable, 3, 2), describe(nervana.Constant, 2)
	inW, theirW, errW := memory([]int64{3, 2}, 1, 2, 3, 4, 5, 6)
	inB, _, errB := memory([]int64{2}, 10, 20)
	inX, theirX, errX := memory([]int64{2, 3}, 1, 0, 0, 0, 1, 0)
	other, _, errOther := memory([]int64{2, 3}, 1, 1, 1, 2, 2, 2)
	if err := errors.Join(errW, errB, errX, errOther); err != nil {
		return err
	}
	for _, t := range []*dlpack.Tensor{inW, inB, inX, other} {
		defer t.Close() // the graph has its own shares
	}
	var m model
	defer m.close()
	fmt.Fprintln(out, "x:", x)
	fmt.Fprintln(out, "no graph yet:", m.build(x, w, b, inB))
	if err := x.Refine(describe(0, 2, -1)); err != nil { // a graph of gorgonia has fixed sizes
		return err
	}
	fmt.Fprintln(out, "x:", x)
	if err := m.build(x, w, b, inB); err != nil {
		return err
	}
	for _, turn := range []struct {
		what string
		do   func() error
	}{
		{"x and w are bound", func() error { return errors.Join(m.x.bind(inX), m.w.bind(inW)) }},
		{"x's owner writes", func() error { copy(theirX, []float64{0, 0, 1, 0, 0, 2}); return nil }},
		{"w's owner writes", func() error { theirW[5] = 60; return nil }},
		{"x is another tensor", func() error { return m.x.bind(other) }},
		{"and the first again", func() error { return m.x.bind(inX) }},
	} {
		if err := turn.do(); err != nil {
			return err
		}
		y, err := m.run()
		if err != nil {
			return err
		}
		err = dlpack.Read(y, func(values []float64) error {
			fmt.Fprintf(out, "%-20s y = %v\n", turn.what, values)
			return nil
		})
		if err := errors.Join(err, y.Close()); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "w is no x:", m.x.bind(inW))
	return nil
}

func main() {
	if err := story(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
