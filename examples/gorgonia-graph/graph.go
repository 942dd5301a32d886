package main

import (
	gorg "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A model is the graph and the machine that runs it, which are made once, and its holds on memory.
type model struct {
	x, y     *gorg.Node
	machine  gorg.VM
	releases []func()
}

// build binds w, a variable, and b, a constant. x has a shape but no value yet.
func (m *model) build(rows int, w, b *dlpack.Tensor) error {
	dw, err := m.wrap(w)
	if err != nil {
		return err
	}
	db, err := m.wrap(b)
	if err != nil {
		return err
	}
	g := gorg.NewGraph()
	m.x = gorg.NewMatrix(g, tensor.Float64, gorg.WithShape(rows, dw.Shape()[0]), gorg.WithName("x"))
	variable := gorg.NewMatrix(g, tensor.Float64, gorg.WithValue(dw), gorg.WithName("w"))
	constant := gorg.NewConstant(db, gorg.WithName("b"), gorg.In(g))
	xw, err := gorg.Mul(m.x, variable)
	if err != nil {
		return err
	}
	if m.y, err = gorg.BroadcastAdd(xw, constant, nil, []byte{0}); err != nil {
		return err
	}
	m.machine = gorg.NewTapeMachine(g)
	return nil
}

// wrap keeps the memory until close.
func (m *model) wrap(t *dlpack.Tensor) (*tensor.Dense, error) {
	d, release, err := gorgonia.Dense(t)
	if err == nil {
		m.releases = append(m.releases, release)
	}
	return d, err
}

// let binds x to other memory. The graph stays as it is.
func (m *model) let(x *dlpack.Tensor) error {
	d, err := m.wrap(x)
	if err != nil {
		return err
	}
	return gorg.Let(m.x, d)
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
	for _, release := range m.releases {
		release()
	}
	if m.machine != nil {
		m.machine.Close()
	}
}
