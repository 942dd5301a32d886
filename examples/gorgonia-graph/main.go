// Gorgonia-graph computes y = x w + b with a graph of gorgonia's whose placeholder x, variable w and constant
// b lie in memory of somebody else's.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dlbridge/dlbridge/dlpack"
)

// memory makes a tensor in C memory, as a producer in another language would hand it out, and the slice by
// which that producer writes to it.
func memory(shape []int64, values ...float64) (*dlpack.Tensor, []float64, error) {
	t, err := dlpack.New(dlpack.Float64, shape...)
	if err != nil {
		return nil, nil, err
	}
	theirs, err := dlpack.Values[float64](t)
	copy(theirs, values)
	return t, theirs, err
}

func story(out io.Writer) error {
	w, inW, errW := memory([]int64{3, 2}, 1, 2, 3, 4, 5, 6)
	b, _, errB := memory([]int64{2}, 10, 20)
	x, inX, errX := memory([]int64{2, 3}, 1, 0, 0, 0, 1, 0)
	other, _, errOther := memory([]int64{2, 3}, 1, 1, 1, 2, 2, 2)
	if err := errors.Join(errW, errB, errX, errOther); err != nil {
		return err
	}
	for _, t := range []*dlpack.Tensor{w, b, x, other} {
		defer t.Close() // the graph has holds of its own
	}
	var m model
	defer m.close()
	if err := m.build(2, w, b); err != nil {
		return err
	}
	for _, turn := range []struct {
		what string
		do   func() error
	}{
		{"x is bound", func() error { return m.let(x) }},
		{"x's owner writes", func() error { copy(inX, []float64{0, 0, 1, 0, 0, 2}); return nil }},
		{"w's owner writes", func() error { inW[5] = 60; return nil }},
		{"x is another tensor", func() error { return m.let(other) }},
		{"and the first again", func() error { return m.let(x) }},
	} {
		if err := turn.do(); err != nil {
			return err
		}
		y, err := m.run()
		if err != nil {
			return err
		}
		values, err := dlpack.Values[float64](y)
		fmt.Fprintf(out, "%-20s y = %v\n", turn.what, values)
		if err := errors.Join(err, y.Close()); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := story(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
