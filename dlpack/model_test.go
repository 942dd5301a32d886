//go:build cgo

package dlpack_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

// A model of who owns what, held against the library by long random sequences of its verbs.
type model struct {
	t       *testing.T
	random  *rand.Rand
	owners  []*owner
	tensors []*reference
	exports []*handedOut
	alone   bool // nobody else changes the counters
	before  dlpack.Stats
	doubles int64
}

// An owner is memory that must be given back once: when neither tensors nor exports of it are left.
type owner struct {
	tensors, exports int
	value            float32    // of all its elements
	source           *handedOut // the export that was imported, or nil
	imported         bool
	allocated        bool
	releases         func() int // of the producer or lender, or nil
}

type reference struct {
	*dlpack.Tensor
	owner *owner
}

type handedOut struct {
	managed unsafe.Pointer
	legacy  bool
	count   int64 // elements
	owner   *owner
}

const modelElements = 8

func TestOwnershipFollowsTheModel(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, seed, true) })
	}
}

func TestOwnershipFollowsTheModelOnManyGoroutines(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	t.Run("at once", func(t *testing.T) {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				runModel(t, 100+seed, false)
			})
		}
	})
}

func runModel(t *testing.T, seed uint64, alone bool) {
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), alone: alone, before: dlpack.ReadStats()}
	for range 3000 {
		m.step()
	}
	for len(m.tensors) > 0 {
		m.close()
	}
	m.check()
	for len(m.exports) > 0 {
		m.delete()
	}
	m.check()
	for _, o := range m.owners {
		require.Zero(t, o.tensors+o.exports)
	}
}

func (m *model) step() {
	switch n := m.random.IntN(100); {
	case n < 12:
		m.make()
	case n < 32:
		m.export()
	case n < 47:
		m.importAgain()
	case n < 60:
		m.view()
	case n < 80:
		m.close()
	case n < 94:
		m.delete()
	case n < 97:
		m.read()
	case n < 98:
		runtime.GC()
	default:
		m.check()
	}
}

func (m *model) add(tensor *dlpack.Tensor, o *owner) {
	o.tensors++
	m.tensors = append(m.tensors, &reference{tensor, o})
}

func (m *model) make() {
	o := &owner{value: float32(len(m.owners) + 1)}
	m.owners = append(m.owners, o)
	fill := func(data unsafe.Pointer) {
		for i := range unsafe.Slice((*float32)(data), modelElements) {
			unsafe.Slice((*float32)(data), modelElements)[i] = o.value
		}
	}
	var tensor *dlpack.Tensor
	var err error
	switch kind := m.random.IntN(5); kind {
	case 0:
		data := make([]float32, modelElements)
		fill(unsafe.Pointer(&data[0]))
		if m.random.IntN(2) == 0 {
			tensor, err = dlpack.FromSlice(data)
		} else {
			tensor, err = dlpack.FromReadOnly(data)
		}
	case 1:
		o.allocated = true
		tensor, err = dlpack.New(dlpack.Float32, modelElements)
		require.NoError(m.t, err)
		fill(unsafe.Pointer(unsafe.SliceData(must(dlpack.Values[float32](tensor)))))
	case 2:
		o.allocated = true
		loan := dlpacktest.Lend(m.t, 4*modelElements)
		fill(loan.Data())
		o.releases = loan.Releases
		lent, lendErr := dlpack.Lend(loan.Data(), 4*modelElements, false, loan.Release(), loan.Context())
		require.NoError(m.t, lendErr)
		tensor, err = lent.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{modelElements}})
		require.NoError(m.t, lent.Close())
	default:
		o.imported = true
		p := dlpacktest.Produce(m.t, dlpacktest.Config{Legacy: kind == 4, Shape: []int64{modelElements}, Bytes: 4 * modelElements})
		fill(unsafe.Pointer(&p.Data()[0]))
		o.releases = p.Deletes
		tensor, err = m.take(p.Managed(), kind == 4)
	}
	require.NoError(m.t, err)
	m.add(tensor, o)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (m *model) take(managed unsafe.Pointer, legacy bool) (*dlpack.Tensor, error) {
	var options []dlpack.ImportOption
	if m.random.IntN(2) == 0 {
		options = append(options, dlpack.NoSafetyNet)
	}
	if legacy {
		return dlpack.ImportLegacy(managed, options...)
	}
	return dlpack.Import(managed, options...)
}

func (m *model) export() {
	if len(m.tensors) == 0 {
		return
	}
	r := m.tensors[m.random.IntN(len(m.tensors))]
	for range 1 + m.random.IntN(4) {
		out := &handedOut{legacy: m.random.IntN(3) == 0, count: r.NumElements(), owner: r.owner}
		var err error
		if out.legacy {
			out.managed, err = r.ExportLegacy()
			if r.Flags()&dlpack.ReadOnly != 0 {
				require.ErrorIs(m.t, err, dlpack.ErrReadOnly)
				continue
			}
		} else {
			out.managed, err = r.Export()
		}
		require.NoError(m.t, err)
		r.owner.exports++
		m.exports = append(m.exports, out)
	}
}

// takeOut removes a random element.
func takeOut[T any](m *model, from *[]T) T {
	i, last := m.random.IntN(len(*from)), len(*from)-1
	(*from)[i], (*from)[last] = (*from)[last], (*from)[i]
	x := (*from)[last]
	*from = (*from)[:last]
	return x
}

func (m *model) importAgain() {
	if len(m.exports) == 0 {
		return
	}
	e := takeOut(m, &m.exports)
	tensor, err := m.take(e.managed, e.legacy)
	require.NoError(m.t, err)
	o := &owner{value: e.owner.value, source: e, imported: true}
	m.owners = append(m.owners, o)
	m.add(tensor, o)
}

func (m *model) view() {
	if len(m.tensors) == 0 {
		return
	}
	r := m.tensors[m.random.IntN(len(m.tensors))]
	n := r.NumElements()
	spec := dlpack.Spec{DType: dlpack.Float32, Shape: []int64{1 + m.random.Int64N(n)}, ReadOnly: m.random.IntN(8) == 0}
	spec.ByteOffset = 4 * m.random.Int64N(n-spec.Shape[0]+1)
	if m.random.IntN(2) == 0 {
		spec.Strides = []int64{-1}
		spec.ByteOffset += 4 * (spec.Shape[0] - 1)
	}
	if r.Stride(0) == -1 { // element 0 is the highest
		spec.ByteOffset -= 4 * (n - 1)
	}
	view, err := r.View(spec)
	require.NoError(m.t, err)
	m.add(view, r.owner)
}

func (m *model) close() {
	if len(m.tensors) == 0 {
		return
	}
	r := takeOut(m, &m.tensors)
	require.NoError(m.t, r.Close())
	r.owner.tensors--
	m.ended(r.owner)
	_, err := r.Export()
	require.ErrorIs(m.t, err, dlpack.ErrClosed)
	if m.random.IntN(4) == 0 {
		require.NoError(m.t, r.Close())
	}
}

// ended passes the ends of owners on to what they imported, and sees that each producer knows at once.
func (m *model) ended(owners ...*owner) {
	for i := 0; i < len(owners); i++ {
		if o := owners[i]; o.tensors+o.exports == 0 && o.source != nil {
			from := o.source.owner
			from.exports--
			o.source = nil // once
			owners = append(owners, from)
		}
	}
	for _, o := range owners {
		if o.releases != nil {
			want := 0
			if o.tensors+o.exports == 0 {
				want = 1
			}
			require.Equal(m.t, want, o.releases())
		}
	}
}

func (m *model) delete() {
	if len(m.exports) == 0 {
		return
	}
	if m.random.IntN(3) == 0 {
		e := takeOut(m, &m.exports)
		release := dlpack.Release
		if e.legacy {
			release = dlpack.ReleaseLegacy
		}
		release(e.managed)
		if m.alone && m.random.IntN(2) == 0 { // with others, the block might be in use again
			release(e.managed)
			m.doubles++
		}
		e.owner.exports--
		m.ended(e.owner)
		return
	}
	var batches [2][]unsafe.Pointer
	var gone []*owner
	for range min(1+m.random.IntN(8), len(m.exports)) {
		e := takeOut(m, &m.exports)
		gone = append(gone, e.owner)
		e.owner.exports--
		form := 0
		if e.legacy {
			form = 1
		}
		batches[form] = append(batches[form], e.managed)
	}
	dlpacktest.DeleteOnThreads(batches[0], 1+m.random.IntN(3))
	dlpacktest.DeleteLegacyOnThreads(batches[1], 1+m.random.IntN(3))
	m.ended(gone...)
}

// read reads all that is alive.
func (m *model) read() {
	for _, e := range m.exports {
		if !e.legacy {
			require.Equal(m.t, float64(e.owner.value)*float64(e.count), dlpacktest.Sum(e.managed))
		}
	}
	for _, r := range m.tensors {
		data, err := r.AppendBytes(nil)
		require.NoError(m.t, err)
		require.Len(m.t, data, int(r.NumBytes()))
		for _, v := range unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), r.NumElements()) {
			require.Equal(m.t, r.owner.value, v)
		}
	}
}

// check holds the counters against the model.
func (m *model) check() {
	if !m.alone {
		dlpack.Reap()
		return
	}
	var exports, imports, allocations int64
	for _, o := range m.owners {
		exports += int64(o.exports)
		if o.tensors > 0 && o.imported {
			imports++
		}
		if o.tensors > 0 && o.allocated {
			allocations++
		}
	}
	s := dlpack.ReadStats()
	require.Equal(m.t, m.before.Exports+exports, s.Exports)
	require.Equal(m.t, m.before.Imports+imports, s.Imports)
	require.Equal(m.t, m.before.Allocations+allocations, s.Allocations)
	require.Equal(m.t, m.before.DoubleDeletes+m.doubles, s.DoubleDeletes)
	require.Equal(m.t, m.before.Forgotten, s.Forgotten)
}
