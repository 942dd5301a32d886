//go:build linux && cgo

package shm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens"
)

// Packing is the packing of a tensor of a TENS message if its elements are in a segment. The attribute "shm" of the
// tensor has the [Handle] of the segment. The tensor has no payload part. Readers that do not know the packing refuse
// the tensor. The offset of the handle is the place in the segment of the byte that would be the first byte of a
// payload part.
const Packing = "shm"

// Offers is an option of [bridge.Encode], which must be called with the same tensors. A tensor that lies in a segment
// ([IsShared]) without gaps and without shared elements gets no payload part. Until timeout is over, it is offered to
// one receiver, as by [Offer]. So the message must be sent to a single receiver on the same machine.
//
// Ownership, Lifetime, Threads: as [Offer]. Offered tensors may be closed after the message was encoded; tensors with a
// payload part must stay open. On error: those of [Offer]. All tensors are checked before any is offered. After an
// error of a later option, or of the system, the offers made so far end with the timeout. [bridge.Spread] may come
// before or after this option, and cuts only the tensors that have payload parts.
func Offers(ts []*dlpack.Tensor, timeout time.Duration, options ...SendOption) bridge.EncodeOption {
	return func(l *tens.Label) error {
		if len(ts) != len(l.Tensors) {
			return fmt.Errorf("shm: Offers: got %d tensors, but the message has %d: %w", len(ts), len(l.Tensors), dlpack.ErrValue)
		}
		s := settingsOf(options)
		befores := make(map[int]int64) // for each tensor to offer, the bytes before element (0, ..., 0)
		for i, t := range ts {
			if _, _, packed := layout.Packed(t.Shape(), t.Strides()); !packed || !IsShared(t) {
				continue // it has a part
			}
			low, _, err := t.Layout().Span()
			if err == nil {
				befores[i], err = t.DType().NumBytes(-low, t.Flags()&dlpack.SubbytePadded != 0)
			}
			if err == nil {
				err = s.check(t, timeout)
			}
			if err != nil {
				return fmt.Errorf("tensor %d: shm: offer: %w", i, err)
			}
		}
		for i, t := range ts {
			before, ok := befores[i]
			if !ok {
				continue
			}
			h, err := s.offer(t, timeout)
			if err != nil {
				return fmt.Errorf("tensor %d: shm: offer: %w", i, err)
			}
			h.Offset -= uint64(before)
			text, err := json.Marshal(h)
			if err != nil {
				return fmt.Errorf("tensor %d: %w", i, err)
			}
			l.Tensors[i].Packing = Packing
			l.Tensors[i].Extra = append(l.Tensors[i].Extra, tens.Attribute{Name: Packing, Value: text})
		}
		return nil
	}
}

// FetchTensors works like [Fetch] for all tensors of a message whose elements are in segments. label is the label of
// the message, and ts is the result of [bridge.Decode]. ts has nil for each tensor with a packing other than "dense".
// For each tensor with the packing [Packing], FetchTensors puts the tensor in the place of nil.
//
// Ownership: the tensors are the caller's. Lifetime: until their Close. Threads: any. On error: those of [Fetch], with
// the number of the tensor in the label; [dlpack.ErrValue] for an attribute that is not a [Handle]. All tensors are
// checked before any is fetched. After an error the fetched tensors are closed, and their entries are nil again.
func FetchTensors(ctx context.Context, label *tens.Label, ts []*dlpack.Tensor, options ...RecvOption) error {
	r := settingsOf(options)
	var found []described
	next := 0
	for i := range label.Tensors {
		t := &label.Tensors[i]
		if t.IsDense() {
			continue
		}
		k := slices.Index(ts[next:], nil) // the entry of this tensor, the next that is not dense
		if k < 0 {
			return fmt.Errorf("shm: tensor %d: the list of tensors has no entry for it; pass the list that bridge.Decode returned: %w", i, dlpack.ErrValue)
		}
		k += next
		next = k + 1
		if t.Packing != Packing {
			continue
		}
		d, err := describeTensor(t)
		if err != nil {
			return fmt.Errorf("shm: tensor %d: %w", i, err)
		}
		d.tensor, d.entry = i, k
		found = append(found, d)
	}
	for n := range found {
		d := &found[n]
		var err error
		if ts[d.entry], err = r.fetchChecked(ctx, d.handle, d.spec); err != nil {
			for _, d := range found[:n] {
				ts[d.entry].Close()
				ts[d.entry] = nil
			}
			return fmt.Errorf("shm: tensor %d: shm: fetch: %w", d.tensor, err)
		}
	}
	return nil
}

// described is a tensor of a message that can be fetched.
type described struct {
	tensor, entry int // its indices in the label, and among the results
	handle        Handle
	spec          dlpack.Spec
}

func describeTensor(t *tens.Tensor) (d described, err error) {
	k := slices.IndexFunc(t.Extra, func(a tens.Attribute) bool { return a.Name == Packing })
	if k < 0 {
		return d, fmt.Errorf("it has no attribute %q: %w", Packing, dlpack.ErrValue)
	}
	if err := json.Unmarshal(t.Extra[k].Value, &d.handle); err != nil {
		return d, fmt.Errorf("attribute %q: %w: %w", Packing, dlpack.ErrValue, err)
	}
	dense := *t
	dense.Packing, dense.Extra = "", slices.Delete(slices.Clone(t.Extra), k, k+1)
	what, err := bridge.DecodeTensor(&dense)
	if err != nil {
		return d, err
	}
	first, err := what.DType.NumBytes(what.Layout.Offset, what.Padded)
	if err != nil {
		return d, err
	}
	d.handle.Offset += uint64(first) // beyond 2^64 it is small, and checked like any other
	d.spec = dlpack.Spec{DType: what.DType, Shape: what.Layout.Shape, Strides: what.Layout.Strides, Padded: what.Padded}
	if err := checkHandle(d.handle, &d.spec); err != nil {
		return d, fmt.Errorf("shm: fetch: %w", err)
	}
	return d, nil
}
