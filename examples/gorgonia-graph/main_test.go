package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// rented is a tensor made in C, with its producer's view of the memory.
type rented struct {
	*dlpack.Tensor
	producer *dlpacktest.Producer
	theirs   []float64
}

// rent returns a tensor of small numbers, so that sums of their products are exact.
func rent(t *testing.T, config dlpacktest.Config) rented {
	config.Code, config.Bits, config.Lanes = uint8(dlpack.CodeFloat), 64, 1
	p := dlpacktest.Produce(t, config)
	x, err := dlpack.Import(p.Managed())
	require.NoError(t, err)
	t.Cleanup(func() { x.Close() })
	r := rented{x, p, unsafe.Slice((*float64)(unsafe.Pointer(&p.Data()[0])), len(p.Data())/8)}
	r.change()
	return r
}

// change writes to the memory as the producer does.
func (r rented) change() {
	for i := range r.theirs {
		r.theirs[i] = float64(rand.IntN(20) - 10)
	}
}

// address returns the address of a node's value.
func (n *node) address() uintptr { return n.in.Value().(*tensor.Dense).Uintptr() }

func TestReadmeShowsWhatIsPrinted(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	var printed bytes.Buffer
	require.NoError(t, story(&printed))
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	assert.Contains(t, strings.ReplaceAll(string(readme), "\r", ""), "```\n"+printed.String()+"```\n")
}

// Inputs are exchanged and written to, without a copy and without a new graph. Memory that is no longer bound is
// released.
func TestForwardPassReadsForeignMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	const rows, inner, columns = 5, 4, 3
	w := rent(t, dlpacktest.Config{Shape: []int64{inner, columns}})
	b := rent(t, dlpacktest.Config{Shape: []int64{columns}})
	constant := append([]float64(nil), b.theirs...)
	var m model
	defer m.close()
	require.NoError(t, m.build(describe(nervana.Placeholder, rows, inner), describe(nervana.Variable, inner, columns),
		describe(nervana.Constant, columns), b.Tensor))
	require.NoError(t, m.w.bind(w.Tensor))
	nodes := len(m.x.in.Graph().AllNodes())
	var last rented
	for turn := range 50 {
		x := rent(t, dlpacktest.Config{Shape: []int64{rows, inner}})
		require.NoError(t, m.x.bind(x.Tensor))
		require.NoError(t, x.Close())
		assert.Equal(t, uintptr(unsafe.Pointer(&x.theirs[0])), m.x.address())
		assert.Zero(t, x.producer.Deletes(), "it is bound")
		if turn > 0 {
			assert.Equal(t, 1, last.producer.Deletes(), "it is bound no more")
		}
		last = x
		if turn == 25 {
			w = rent(t, dlpacktest.Config{Shape: []int64{inner, columns}})
			require.NoError(t, m.w.bind(w.Tensor))
		}
		for range 3 {
			x.change()
			w.change()
			if turn%10 == 0 {
				runtime.GC()
			}
			y, err := m.run()
			require.NoError(t, err)
			values, err := dlpack.Values[float64](y)
			require.NoError(t, err)
			require.Len(t, values, rows*columns)
			for i, got := range values {
				want := b.theirs[i%columns]
				for k := range inner {
					want += x.theirs[i/columns*inner+k] * w.theirs[k*columns+i%columns]
				}
				assert.Equal(t, want, got, "y[%d][%d]", i/columns, i%columns)
			}
			require.NoError(t, y.Close())
		}
	}
	assert.Equal(t, uintptr(unsafe.Pointer(&w.theirs[0])), m.w.address())
	assert.Equal(t, uintptr(unsafe.Pointer(&b.theirs[0])), m.b.address())
	assert.Equal(t, constant, b.theirs, "the graph wrote to its constant")
	assert.Len(t, m.x.in.Graph().AllNodes(), nodes, "the graph was built anew")
}

// A description may be a view of another description. Here a variable selects the part of a buffer that it uses.
func TestAnInputIsPartOfALargerBuffer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	epoch := rent(t, dlpacktest.Config{Shape: []int64{24}})
	w, b := rent(t, dlpacktest.Config{Shape: []int64{3, 1}}), rent(t, dlpacktest.Config{Shape: []int64{1}})
	batch := int64(0)
	x := describe(nervana.Placeholder, 24).View(func(l *layout.Layout) error {
		if err := l.Reshape(4, 2, 3); err != nil {
			return err
		}
		return l.Slice(layout.At(batch))
	})
	var m model
	defer m.close()
	require.NoError(t, m.build(x, describe(nervana.Variable, 3, 1), describe(nervana.Constant, 1), b.Tensor))
	require.NoError(t, m.w.bind(w.Tensor))
	for batch = range 4 {
		require.NoError(t, m.x.bind(epoch.Tensor))
		assert.Equal(t, epoch.Data()+uintptr(8*6*batch), m.x.address())
		y, err := m.run()
		require.NoError(t, err)
		values, err := dlpack.Values[float64](y)
		require.NoError(t, err)
		for row, got := range values {
			want := b.theirs[0]
			for k := range 3 {
				want += epoch.theirs[int(batch)*6+row*3+k] * w.theirs[k]
			}
			assert.Equal(t, want, got)
		}
		require.NoError(t, y.Close())
	}
}

func TestWhatIsNotAsDescribedIsRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	build := func(x, w, b *nervana.Description, constant *dlpack.Tensor) error {
		var m model
		defer m.close()
		return m.build(x, w, b, constant)
	}
	x, w, b := describe(nervana.Placeholder, 2, 3), describe(nervana.Variable, 3, 2), describe(nervana.Constant, 2)
	in := rent(t, dlpacktest.Config{Shape: []int64{2, 3}})
	constant := rent(t, dlpacktest.Config{Shape: []int64{2}})
	assert.ErrorIs(t, build(describe(nervana.Placeholder, -1, 3), w, b, constant.Tensor), nervana.ErrUnknown)
	assert.ErrorIs(t, build(x, w, b, in.Tensor), dlpack.ErrLayout)
	assert.ErrorIs(t, build(x, describe(nervana.Variable, 3, 1), describe(nervana.Constant, 1), constant.Tensor), nervana.ErrConflict)

	var m model
	require.NoError(t, m.build(x, w, b, constant.Tensor))
	require.NoError(t, m.x.bind(in.Tensor))
	require.NoError(t, m.w.bind(rent(t, dlpacktest.Config{Shape: []int64{3, 2}}).Tensor))
	for _, c := range []struct {
		name   string
		node   *node
		from   dlpacktest.Config
		causes []error
	}{
		{"another shape", &m.x, dlpacktest.Config{Shape: []int64{3, 2}}, []error{nervana.ErrConflict, dlpack.ErrLayout}},
		{"a gap between rows", &m.x, dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{4, 1}}, []error{dlpack.ErrLayout}},
		{"a variable that cannot be written", &m.w, dlpacktest.Config{Major: 1, Shape: []int64{3, 2}, Strides: []int64{2, 1}, Flags: uint64(dlpack.ReadOnly)},
			[]error{nervana.ErrConflict, dlpack.ErrReadOnly}},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := c.node.address()
			r := rent(t, c.from)
			err := c.node.bind(r.Tensor)
			for _, cause := range c.causes {
				assert.ErrorIs(t, err, cause)
			}
			require.NoError(t, r.Close())
			assert.Equal(t, 1, r.producer.Deletes(), "a refusal must not keep anything")
			assert.Equal(t, was, c.node.address())
		})
	}
	whole, err := dlpack.New(dlpack.Float32, 2, 3)
	require.NoError(t, err)
	defer whole.Close()
	assert.ErrorIs(t, m.x.bind(whole), dlpack.ErrDType)
	assert.ErrorContains(t, m.b.bind(constant.Tensor), "non input node")
	y, err := m.run() // with the memory bound before
	require.NoError(t, err)
	require.NoError(t, y.Close())
	for _, r := range []rented{in, constant} {
		require.NoError(t, r.Close())
		assert.Zero(t, r.producer.Deletes())
	}
	m.close()
	for _, r := range []rented{in, constant} {
		assert.Equal(t, 1, r.producer.Deletes())
	}
}
