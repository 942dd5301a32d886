package main

import (
	"fmt"

	gorg "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A model is y = x w + b: its graph and the machine that runs it. Both are made once.
type model struct {
	x, w, b node
	y       *gorg.Node
	machine gorg.VM
}

// A node is the description of a tensor, and its node in gorgonia's graph.
type node struct {
	*nervana.Description
	in      *gorg.Node
	release func() // releases the memory to which the node is bound
}

// build makes the graph from the descriptions of its nodes. A constant has its value from the start.
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

// input makes a node without a value: a placeholder, which must be bound before each run, or a variable, which may be
// bound.
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

// bind makes the next runs use the given memory for the node. The graph does not change. On error the node stays bound to its
// former memory.
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

// dense returns a tensor of gorgonia over memory that fits the description. gorgonia has no read-only memory, so the
// memory of a constant is bound as writable; the graph must not write to it.
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

// run computes the forward pass. The result lies in memory of gorgonia and can be exported to any consumer. The next run may
// overwrite it.
func (m *model) run() (*dlpack.Tensor, error) {
	m.machine.Reset()
	if err := m.machine.RunAll(); err != nil {
		return nil, err
	}
	return gorgonia.FromDense(m.y.Value().(tensor.Tensor))
}

// close releases the existing parts of the model.
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
