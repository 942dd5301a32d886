package main

import (
	"fmt"

	gorg "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A model is y = x w + b: its graph and the machine that runs it, which are made once.
type model struct {
	x, w, b node
	y       *gorg.Node
	machine gorg.VM
}

// A node is what is known of a tensor, and the node of gorgonia's that stands for it.
type node struct {
	*nervana.Description
	in      *gorg.Node
	release func() // the hold on the memory that it is bound to
}

// build makes the graph from what is known of its nodes. A constant has its value from the start.
func (m *model) build(x, w, b *nervana.Description, constant *dlpack.Tensor) error {
	g := gorg.NewGraph()
	m.x.Description, m.w.Description, m.b.Description = x, w, b
	if err := m.x.input(g, "x"); err != nil {
		return err
	}
	if err := m.w.input(g, "w"); err != nil {
		return err
	}
	value, release, err := m.b.dense(constant)
	if err != nil {
		return fmt.Errorf("b: %w", err)
	}
	m.b.release = release
	m.b.in = gorg.NewConstant(value, gorg.WithName("b"), gorg.In(g))
	xw, err := gorg.Mul(m.x.in, m.w.in)
	if err != nil {
		return err
	}
	if m.y, err = gorg.BroadcastAdd(xw, m.b.in, nil, []byte{0}); err != nil {
		return err
	}
	m.machine = gorg.NewTapeMachine(g)
	return nil
}

var types = map[dlpack.DataType]tensor.Dtype{dlpack.Float32: tensor.Float32, dlpack.Float64: tensor.Float64}

// input makes a node without a value: of what is bound before each run, and of what may be.
func (n *node) input(g *gorg.ExprGraph, name string) error {
	if err := n.Complete(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	known, err := n.Known()
	if err != nil {
		return err
	}
	of, ok := types[known.DType]
	if !ok {
		return fmt.Errorf("%s: no graph is made of %v", name, known.DType)
	}
	var shape []int
	for _, size := range known.Shape.Dims() {
		shape = append(shape, int(size))
	}
	n.in = gorg.NewTensor(g, of, len(shape), gorg.WithShape(shape...), gorg.WithName(name))
	return nil
}

// bind finds the node in memory that is there, for the runs from now on. The graph stays as it is. On error it
// is bound to what it was.
func (n *node) bind(t *dlpack.Tensor) error {
	d, release, err := n.dense(t)
	if err != nil {
		return err
	}
	if err := gorg.Let(n.in, d); err != nil {
		release()
		return err
	}
	if n.release != nil {
		n.release()
	}
	n.release = release
	return nil
}

// dense puts gorgonia's tensor over memory that is as described. gorgonia knows of no read-only memory: that of a
// constant is bound as if it were merely persistent, and that nobody writes to it is the graph's word.
func (n *node) dense(t *dlpack.Tensor) (d *tensor.Dense, release func(), err error) {
	bound := *n.Description
	bound.Role &^= nervana.IsConstant
	v, err := bound.Bind(t)
	if err != nil {
		return nil, nil, err
	}
	defer v.Close()
	return gorgonia.Dense(v)
}

// run is the forward pass. The result is memory of gorgonia's, ready for any consumer; the next run may write
// to it.
func (m *model) run() (*dlpack.Tensor, error) {
	m.machine.Reset()
	if err := m.machine.RunAll(); err != nil {
		return nil, err
	}
	return gorgonia.FromDense(m.y.Value().(tensor.Tensor))
}

// close ends what there is of the model.
func (m *model) close() {
	if m.machine != nil {
		m.machine.Close()
	}
	for _, n := range []node{m.x, m.w, m.b} {
		if n.release != nil {
			n.release()
		}
	}
}
