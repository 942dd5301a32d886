package main

import (
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// views returns the paths that create and close views, read and write elements, and bind or allocate descriptions.
func views() []path {
	t := newTensor(3, 4, 5)
	closed := func(name string, make func() (*dlpack.Tensor, error)) path {
		return path{name: name, counted: true, run: func(n int) {
			for range n {
				must(make()).Close()
			}
		}}
	}
	described := &nervana.Description{
		DType: dlpack.Float32, Shape: must(layout.NewPartialShape(layout.Unknown, 4, 5)), Role: nervana.Placeholder,
	}
	complete := &nervana.Description{DType: dlpack.Float32, Shape: must(layout.NewPartialShape(3, 4, 5))}
	if err := complete.AlignRows(64); err != nil {
		panic(err)
	}
	held := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3, 4, 5))
	return []path{
		closed("view_transpose", func() (*dlpack.Tensor, error) { return t.Transpose(2, 0, 1) }),
		closed("view_slice", func() (*dlpack.Tensor, error) { return t.Slice(layout.Range(1, 3), layout.At(2)) }),
		closed("view_slice_by_steps", func() (*dlpack.Tensor, error) {
			return t.Slice(layout.From(1), layout.At(2), layout.All().By(-2))
		}),
		closed("view_narrow", func() (*dlpack.Tensor, error) { return t.Narrow(1, 1, 2) }),
		closed("view_reshape", func() (*dlpack.Tensor, error) { return t.Reshape(4, -1) }),
		closed("view_apply", func() (*dlpack.Tensor, error) {
			return t.Apply(func(l *layout.Layout) error {
				if err := l.Transpose(2, 0, 1); err != nil {
					return err
				}
				return l.Narrow(0, 1, 2)
			})
		}),
		{name: "gorgonia_slice", counted: true, run: func(n int) {
			for range n {
				must(held.Slice(tensor.S(1, 3), tensor.S(2)))
			}
		}},
		element("at_generic", func() error { _, err := dlpack.At[float32](t, 2, 3, 4); return err }),
		element("set_at_generic", func() error { return dlpack.SetAt[float32](t, 1, 2, 3, 4) }),
		element("at_any", func() error { _, err := t.At(2, 3, 4); return err }),
		element("set_at_any", func() error { return t.SetAt(float32(1), 2, 3, 4) }),
		element("gorgonia_at", func() error { _, err := held.At(2, 3, 4); return err }),
		element("gorgonia_set_at", func() error { return held.SetAt(float32(1), 2, 3, 4) }),
		closed("description_bind", func() (*dlpack.Tensor, error) { return described.Bind(t) }),
		closed("description_allocate", complete.Allocate),
		closed("new_close", func() (*dlpack.Tensor, error) { return dlpack.New(dlpack.Float32, 3, 4, 5) }),
	}
}

// element returns a path that reads or writes elements.
func element(name string, use func() error) path {
	return path{name: name, counted: true, run: func(n int) {
		for range n {
			if err := use(); err != nil {
				panic(err)
			}
		}
	}}
}

// stridedSums returns the paths that add up the 2048 elements of a transposed matrix.
func stridedSums() (paths []path) {
	whole := make([]float32, 64*32)
	for i := range whole {
		whole[i] = float32(i % 7)
	}
	matrix := must(dlpack.FromSlice(whole, 64, 32))
	t := must(matrix.Transpose())
	shape, strides := t.Shape(), t.Strides()
	var total float32
	for _, way := range []struct {
		name string
		sum  func() error
	}{
		{"by_hand", func() error { total = sumByHand(whole, shape, strides); return nil }},
		{"loop", func() error {
			return dlpack.ReadStrided(t, func(x dlpack.Strided[float32]) error {
				total = sumByHand(x.Data[x.Start:], x.Shape, x.Strides)
				return nil
			})
		}},
		{"all", func() error {
			return dlpack.ReadStrided(t, func(x dlpack.Strided[float32]) error {
				sum := float32(0)
				for _, value := range x.All() {
					sum += value
				}
				total = sum
				return nil
			})
		}},
		{"contiguous", func() error {
			c, _, err := t.Contiguous(dlpack.RowMajor)
			if err != nil {
				return err
			}
			defer c.Close()
			return dlpack.Read(c, func(x []float32) error {
				sum := float32(0)
				for _, value := range x {
					sum += value
				}
				total = sum
				return nil
			})
		}},
		{"at", func() error {
			sum := float32(0)
			for i := range shape[0] {
				for j := range shape[1] {
					value, err := dlpack.At[float32](t, i, j)
					if err != nil {
						return err
					}
					sum += value
				}
			}
			total = sum
			return nil
		}},
	} {
		if err := way.sum(); err != nil || total != sumByHand(whole, shape, strides) {
			panic(way.name)
		}
		paths = append(paths, element("strided_sum_"+way.name, way.sum))
	}
	return paths
}

//go:noinline
func sumByHand(data []float32, shape, strides []int64) (sum float32) {
	for i := range shape[0] {
		for j := range shape[1] {
			sum += data[i*strides[0]+j*strides[1]]
		}
	}
	return sum
}
