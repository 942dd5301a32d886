//go:build cgo

package dlpack_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// model keeps track of who owns which memory. The tests call the library's functions in long random sequences and compare
// the model with the library after each call. Each decision about the next call is read from one byte of choices.
type model struct {
	t       *testing.T
	choices []byte
	owners  []*owner
	tensors []*reference
	exports []*handedOut
	alone   bool         // nobody else changes the counters
	stale   []*handedOut // deleted

	before dlpack.Stats
	// the numbers of exports, second deleter calls, forgotten owners and collections
	exported, doubles, dropped, collections int64
}

// An owner is memory that must be given back once, after its last tensor and its last export have ended.
type owner struct {
	tensors, exports int
	value            float32    // of all its elements
	source           *handedOut // the export that was imported, or nil
	imported         bool
	allocated        bool
	noNet            bool       // it has no cleanup guard
	forgotten        bool       // memory that was exported often then waits for a collection
	releases         func() int // calls of the producer's deleter or the lender's release, or nil
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
	before  int64 // number of earlier exports
}

const modelElements = 8

// choicesOf returns n random choices.
func choicesOf(seed uint64, n int) []byte {
	choices := make([]byte, n)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range choices {
		choices[i] = byte(random.Uint32())
	}
	return choices
}

func TestOwnershipFollowsTheModel(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	repotest.Forgets(t)
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, choicesOf(seed, fewer(12000)), true) })
	}
}

func TestOwnershipFollowsTheModelOnManyGoroutines(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	repotest.Forgets(t)
	t.Run("at once", func(t *testing.T) {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				runModel(t, choicesOf(100+seed, fewer(12000)), false)
			})
		}
	})
}

// FuzzOwners exports, imports, views, closes, forgets and deletes tensors in any order and on several threads. Each
// producer's deleter must run once, after the last use, and the counters must agree with the model.
func FuzzOwners(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(choicesOf(1000+seed, 500))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		dlpacktest.CheckLeaks(t)
		repotest.Forgets(t)
		runModel(t, choices[:min(len(choices), 5000)], true)
	})
}

func runModel(t *testing.T, choices []byte, alone bool) {
	m := &model{t: t, choices: choices, alone: alone, before: dlpack.ReadStats()}
	for len(m.choices) > 0 {
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

// choose returns a number below n, which is at most 256. It returns 0 when no choices are left.
func (m *model) choose(n int) int {
	if len(m.choices) == 0 {
		return 0
	}
	c := int(m.choices[0]) % n
	m.choices = m.choices[1:]
	return c
}

func (m *model) step() {
	switch n := m.choose(200); {
	case n < 24:
		m.make()
	case n < 64:
		m.export()
	case n < 94:
		m.importAgain()
	case n < 120:
		m.view()
	case n < 160:
		m.close()
	case n < 184:
		m.delete()
	case n < 188:
		m.deleteAgain()
	case n < 193:
		m.read()
	case n < 195:
		if m.collections++; m.collections > 100 { // they take long
			return
		}
		if n < 194 {
			runtime.GC()
		} else {
			m.forget()
		}
	case n < 197:
		dlpack.Reap()
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
	var tensor *dlpack.Tensor
	var err error
	switch kind := m.choose(7); kind {
	case 0, 1:
		data := make([]float32, modelElements)
		for i := range data {
			data[i] = o.value
		}
		if kind == 0 {
			tensor, err = dlpack.FromSlice(data)
		} else {
			tensor, err = dlpack.FromReadOnly(data)
		}
	case 2:
		o.allocated = true
		tensor, err = dlpack.New(dlpack.Float32, modelElements)
		require.NoError(m.t, err)
		m.exported++
		managed := export(m.t, tensor)
		dlpacktest.Fill(managed, o.value)
		dlpack.Release(managed)
	case 3:
		o.allocated = true
		loan := dlpacktest.Lend(m.t, 4*modelElements)
		fill(loan.Data(), o.value)
		o.releases = loan.Releases
		lent, lendErr := dlpack.Lend(loan.Data(), 4*modelElements, false, loan.Release(), loan.Context())
		require.NoError(m.t, lendErr)
		tensor, err = lent.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{modelElements}})
		require.NoError(m.t, lent.Close())
	case 4: // no memory of Go
		o.value, o.exports = 0, 1
		legacy := m.choose(2) == 0
		m.exports = append(m.exports, &handedOut{managed: dlpacktest.ExportInC(legacy), legacy: legacy, count: 1, owner: o, before: m.exported})
		m.exported++
		return
	default:
		o.imported = true
		legacy := kind == 5
		p := dlpacktest.Produce(m.t, dlpacktest.Config{Legacy: legacy, Shape: []int64{modelElements}, Bytes: 4 * modelElements})
		fill(unsafe.Pointer(&p.Data()[0]), o.value)
		o.releases = p.Deletes
		tensor, err = m.take(p.Managed(), legacy, o)
	}
	require.NoError(m.t, err)
	m.add(tensor, o)
}

func fill(data unsafe.Pointer, value float32) {
	elements := unsafe.Slice((*float32)(data), modelElements)
	for i := range elements {
		elements[i] = value
	}
}

func (m *model) take(managed unsafe.Pointer, legacy bool, o *owner) (*dlpack.Tensor, error) {
	var options []dlpack.ImportOption
	if o.noNet = m.choose(2) == 0; o.noNet {
		options = append(options, dlpack.WithoutGuard)
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
	r := m.tensors[m.choose(len(m.tensors))]
	for range 1 + m.choose(4) {
		out := &handedOut{legacy: m.choose(3) == 0, count: r.NumElements(), owner: r.owner, before: m.exported}
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
		m.exported++
		r.owner.exports++
		m.exports = append(m.exports, out)
	}
}

// takeOut removes an element, and clears its place in the array.
func takeOut[T any](m *model, from *[]T) T {
	i, last := m.choose(len(*from)), len(*from)-1
	(*from)[i], (*from)[last] = (*from)[last], (*from)[i]
	x := (*from)[last]
	clear((*from)[last:])
	*from = (*from)[:last]
	return x
}

func (m *model) importAgain() {
	if len(m.exports) == 0 {
		return
	}
	e := takeOut(m, &m.exports)
	o := &owner{value: e.owner.value, source: e, imported: true}
	tensor, err := m.take(e.managed, e.legacy, o)
	require.NoError(m.t, err)
	m.owners = append(m.owners, o)
	m.add(tensor, o)
}

func (m *model) view() {
	if len(m.tensors) == 0 {
		return
	}
	r := m.tensors[m.choose(len(m.tensors))]
	n := r.NumElements()
	spec := dlpack.Spec{DType: dlpack.Float32, Shape: []int64{1 + int64(m.choose(int(n)))}, ReadOnly: m.choose(8) == 0}
	spec.ByteOffset = 4 * int64(m.choose(int(n-spec.Shape[0])+1))
	if m.choose(2) == 0 {
		spec.Strides = []int64{-1}
		spec.ByteOffset += 4 * (spec.Shape[0] - 1)
	}
	if r.Rank() == 1 && r.Stride(0) == -1 { // element 0 is the highest
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
	if m.choose(4) == 0 {
		require.NoError(m.t, r.Close())
	}
}

// forget drops all tensors of some memory without Close, and waits for the cleanup guard.
func (m *model) forget() {
	if len(m.tensors) == 0 || !m.alone {
		return
	}
	o := m.tensors[m.choose(len(m.tensors))].owner
	if o.noNet {
		return
	}
	kept := m.tensors[:0]
	for _, r := range m.tensors {
		if r.owner != o {
			kept = append(kept, r)
		}
	}
	clear(m.tensors[len(kept):])
	m.tensors = kept
	o.tensors, o.forgotten = 0, true
	if o.imported || o.allocated {
		m.dropped++
	}
	left := m.passOn(o)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); runtime.GC() {
		if s := dlpack.ReadStats(); s == m.want(s) && !slices.ContainsFunc(left, (*owner).wrong) {
			break
		}
	}
	m.check()
	m.told(left)
}

// ended ends owners, and checks that each producer's deleter has run immediately.
func (m *model) ended(owners ...*owner) { m.told(m.passOn(owners...)) }

// passOn ends the exports that ended owners have imported, and returns all owners that have lost a user.
func (m *model) passOn(owners ...*owner) []*owner {
	for i := 0; i < len(owners); i++ {
		o := owners[i]
		if o.forgotten {
			dlpack.Reap()
			background.Wait()
		}
		if o.tensors+o.exports == 0 && o.source != nil {
			from := o.source.owner
			from.exports--
			o.source = nil // so that it ends only once
			owners = append(owners, from)
		}
	}
	return owners
}

func (m *model) told(owners []*owner) {
	for _, o := range owners {
		require.False(m.t, o.wrong(), "%+v", o)
	}
}

// wrong reports whether the producer got its memory back too early, too late or too often.
func (o *owner) wrong() bool {
	if o.releases == nil {
		return false
	}
	want := 0
	if o.tensors+o.exports == 0 {
		want = 1
	}
	return o.releases() != want
}

func (m *model) delete() {
	if len(m.exports) == 0 {
		return
	}
	if m.choose(3) == 0 {
		e := takeOut(m, &m.exports)
		release := dlpack.Release
		if e.legacy {
			release = dlpack.ReleaseLegacy
		}
		release(e.managed)
		m.deleted(e)
		m.ended(e.owner)
		return
	}
	var batches [2][]unsafe.Pointer
	var gone []*owner
	for range min(1+m.choose(8), len(m.exports)) {
		e := takeOut(m, &m.exports)
		gone = append(gone, e.owner)
		m.deleted(e)
		form := 0
		if e.legacy {
			form = 1
		}
		batches[form] = append(batches[form], e.managed)
	}
	dlpacktest.DeleteOnThreads(batches[0], 1+m.choose(3))
	dlpacktest.DeleteLegacyOnThreads(batches[1], 1+m.choose(3))
	m.ended(gone...)
}

func (m *model) deleted(e *handedOut) {
	e.owner.exports--
	m.stale = append(m.stale, e)
}

// deleteAgain calls a deleter a second time, as some consumers do, unless its block may be in use again. A block may be
// reused after 64 exports, counted from its own export if its tensor is exported often.
func (m *model) deleteAgain() {
	m.stale = slices.DeleteFunc(m.stale, func(e *handedOut) bool { return m.exported-e.before > 64 })
	if len(m.stale) == 0 || !m.alone {
		return
	}
	m.doubles++
	e := m.stale[m.choose(len(m.stale))]
	again := []unsafe.Pointer{e.managed}
	switch here := m.choose(2) == 0; {
	case here && e.legacy:
		dlpack.ReleaseLegacy(e.managed)
	case here:
		dlpack.Release(e.managed)
	case e.legacy:
		dlpacktest.DeleteLegacyOnThreads(again, 1)
	default:
		dlpacktest.DeleteOnThreads(again, 1)
	}
}

// read reads the elements of all live tensors and exports.
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

// want returns the counters that the library must report. Counters that the model does not know are those of s.
func (m *model) want(s dlpack.Stats) dlpack.Stats {
	s.Exports, s.Imports, s.Allocations = m.before.Exports, m.before.Imports, m.before.Allocations
	for _, o := range m.owners {
		s.Exports += int64(o.exports)
		if o.tensors > 0 && o.imported {
			s.Imports++
		}
		if o.tensors > 0 && o.allocated {
			s.Allocations++
		}
	}
	s.DoubleDeletes = m.before.DoubleDeletes + m.doubles
	s.Forgotten = m.before.Forgotten + m.dropped
	return s
}

// check compares the library's counters with the model.
func (m *model) check() {
	if !m.alone {
		dlpack.Reap()
		return
	}
	s := dlpack.ReadStats()
	require.Equal(m.t, m.want(s), s)
}
