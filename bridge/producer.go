//go:build cgo

package bridge

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens"
)

// A Report says which tensors of an encoded message were copied.
type Report struct {
	// Copied has an entry for each tensor: the reason why its elements were copied, or "" if the part aliases the
	// memory of the tensor.
	Copied []string
}

// An EncodeOption changes the label of a message that [Encode] returns. The label describes all tensors in order. An
// option must not change the shape, data type or layout of a tensor. If an option sets the packing of a tensor to a
// text other than "dense", Encode makes no payload part for this tensor. The caller must then send its elements in
// another way.
type EncodeOption func(*tens.Label) error

// Metadata sets TENS.metadata, a JSON object.
func Metadata(object []byte) EncodeOption {
	return func(l *tens.Label) error { l.Metadata = object; return nil }
}

// TensorMetadata sets the metadata of tensor i, a JSON object of scalars. Objects and arrays belong in [Metadata];
// [Relay] allows them. A name set by [Names] stays.
func TensorMetadata(i int, object []byte) EncodeOption {
	return func(l *tens.Label) error {
		if i < 0 || i >= len(l.Tensors) {
			return fmt.Errorf("metadata for tensor %d, but the number of tensors is %d: %w", i, len(l.Tensors), tens.ErrInvalid)
		}
		name := l.Tensors[i].Name()
		l.Tensors[i].Metadata = object
		if name == "" {
			return nil
		}
		return named(l, i, name)
	}
}

// Names sets the names of the tensors: names[i] is the name of tensor i, and "" leaves its name unchanged. A name is
// stored as the text "name" in the metadata of its tensor. [tens.Label.Find] finds a tensor by its name, and
// [tens.Tensor.Name] returns the name of a tensor.
//
// Errors: [tens.ErrInvalid] for a wrong number of names, and for a name that is not UTF-8, is the name of another
// tensor, or differs from the name in the metadata of its tensor.
func Names(names ...string) EncodeOption {
	return func(l *tens.Label) error {
		if len(names) != len(l.Tensors) {
			return fmt.Errorf("%d names, but the number of tensors is %d: %w", len(names), len(l.Tensors), tens.ErrInvalid)
		}
		first := make(map[string]int)
		for i, name := range names {
			if name != "" {
				if err := named(l, i, name); err != nil {
					return err
				}
			}
			if name = l.Tensors[i].Name(); name == "" {
				continue
			}
			if k, ok := first[name]; ok {
				return fmt.Errorf("tensors %d and %d are both named %.40q: %w", k, i, name, tens.ErrInvalid)
			}
			first[name] = i
		}
		return nil
	}
}

// named names tensor i of a label.
func named(l *tens.Label, i int, name string) error {
	if err := l.Tensors[i].SetName(name); err != nil {
		return fmt.Errorf("tensor %d: %w", i, err)
	}
	return nil
}

// LabelAttributes sets the attributes of the label beside TENS.
func LabelAttributes(a tens.Attributes) EncodeOption {
	return func(l *tens.Label) error { l.LabelExtra = a; return nil }
}

// Relay replaces the tensors of a decoded message. It keeps the metadata, names and further attributes of that message;
// unchanged text stays the same byte for byte. It also allows two things that other programs may write, and that Encode
// refuses without Relay: objects and arrays in the metadata of tensors, and tensors that are only metadata. Payload
// parts without a tensor stay where they are.
//
// There must be as many tensors as in the label. Pass nil for each tensor for which [Decode] returned nil; this tensor
// and its part stay unchanged. A tensor in several parts counts as one tensor: decode it with [Join]. Options before
// Relay have no effect. Options after it can change what Relay has set. The caller copies the header of the message.
//
// Errors: those of [tens.Message.DecodeLabel]; [tens.ErrInvalid] for another number of tensors, and for nil in place of
// a tensor that has elements.
func Relay(msg *tens.Message) EncodeOption {
	return func(l *tens.Label) error {
		if msg != nil {
			if err := dlpack.RequireMemory(3 * perByte * int64(len(msg.Label))); err != nil {
				return fmt.Errorf("relay: label: %w", err)
			}
		}
		label, err := msg.DecodeLabel()
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		if len(label.Tensors) != len(l.Tensors) {
			return fmt.Errorf("relay: %d tensors, but the decoded message has %d, where a tensor in several parts counts once: %w", len(l.Tensors), len(label.Tensors), tens.ErrInvalid)
		}
		for i := range label.Tensors {
			old, t := &label.Tensors[i], l.Tensors[i]
			switch {
			case !t.IsDense(): // it has no elements
				if old.IsDense() {
					return fmt.Errorf("tensor %d: relay: the tensor is nil, but this tensor of the decoded message has elements: %w", i, tens.ErrInvalid)
				}
			case !isSame(old, &t):
				t.Metadata, t.Part = old.Metadata, old.Part
				if old.IsDense() { // otherwise the further attributes may describe the packing
					for _, a := range old.Extra {
						if a.Name != tens.Dlpack {
							t.Extra = append(t.Extra, a)
						}
					}
				}
				label.Tensors[i] = t
			}
		}
		*l = *label
		l.Relay = msg
		return nil
	}
}

// isSame reports whether two tensors have the same elements in the same order in their parts.
func isSame(a, b *tens.Tensor) bool {
	x, err := DecodeTensor(a)
	if err != nil {
		return false
	}
	y, err := DecodeTensor(b)
	if err != nil || x.DType != y.DType || x.Padded != y.Padded || !slices.Equal(x.Layout.Shape, y.Layout.Shape) || x.Layout.Offset != y.Layout.Offset {
		return false
	}
	for d, n := range x.Layout.Shape {
		if n > 1 && x.NBytes > 0 && x.Layout.Strides[d] != y.Layout.Strides[d] {
			return false
		}
	}
	return true
}

// Spread cuts each tensor of more than the given number of bytes into pieces of at most that many bytes, as equal in
// size as possible. Each piece has its own payload part (see package tens). A piece has at least one index of the
// slowest dimension, even if this index takes more bytes. The parts alias the memory of the tensor. A tensor that
// cannot be cut stays in one part (see [Step]). A tensor whose packing an option has set has no part, and is not cut.
// The receiver must know the attribute parts, an extension of package tens.
//
// Errors: [tens.ErrInvalid] for less than one byte.
func Spread(bytes int64) EncodeOption {
	return func(l *tens.Label) error {
		if bytes < 1 {
			return fmt.Errorf("spread: a piece must have at least one byte, not %d: %w", bytes, tens.ErrInvalid)
		}
		for i := range l.Tensors {
			t := &l.Tensors[i]
			if !t.IsDense() {
				continue // it gets no part
			}
			dim, step, ok, err := Step(t)
			if err != nil {
				return fmt.Errorf("tensor %d: %w", i, err)
			}
			if !ok {
				continue
			}
			n, count := t.Shape[dim], max(bytes/step, 1) // the number of indices, and the largest number of indices of a piece
			if n > count {
				t.Parts = int((n-1)/count + 1)
			}
		}
		return nil
	}
}

// Encode returns a message with the form TENS, the level 0 and a label. It has one payload part for each tensor. With
// [Spread] a tensor may have several parts, and a tensor whose packing an option sets has no part. A part aliases the
// memory of its tensor if the layout has no gaps and no shared elements. The dimensions may have any order and
// direction. Otherwise the part is a copy in C order. The caller sets Origin, Granule and Seqno.
//
// Ownership: the tensors stay the caller's. Lifetime: they must stay open while the message is in use, because its
// parts are slices of their memory and do not keep it alive. Threads: any. On error: [elements.ErrDType],
// [dlpack.ErrDevice], [dlpack.ErrClosed] or [dlpack.ErrMemory], with the index of the tensor; [dlpack.ErrMemory] if
// there is too little memory for the label; the error of an option; or an error of package tens for metadata that is
// not a JSON object. Without [Relay], objects and arrays in the metadata of a tensor are an error, too.
func Encode(ts []*dlpack.Tensor, options ...EncodeOption) (*tens.Message, *Report, error) {
	msg := &tens.Message{Form: [4]byte{'T', 'E', 'N', 'S'}, Parts: make([][]byte, len(ts))}
	label := &tens.Label{Tensors: make([]tens.Tensor, len(ts))}
	report := &Report{Copied: make([]string, len(ts))}
	for i, t := range ts {
		if t == nil { // Relay keeps the tensor of the label
			label.Tensors[i] = tens.Tensor{DType: '?', Shape: []int64{}, Metadata: []byte("{}")}
			continue
		}
		out, part, why, err := encodeTensor(t)
		if err != nil {
			return nil, nil, fmt.Errorf("bridge: tensor %d: %w", i, err)
		}
		out.Part = i
		label.Tensors[i], msg.Parts[i], report.Copied[i] = out, part, why
	}
	for _, o := range options {
		if o == nil { // a nil option changes nothing
			continue
		}
		if err := o(label); err != nil {
			return nil, nil, fmt.Errorf("bridge: %w", err)
		}
	}
	if label.Relay == nil {
		for i, t := range ts {
			if t == nil {
				return nil, nil, fmt.Errorf("bridge: tensor %d: %w", i, t.RequireOpen())
			}
		}
	}
	if err := cut(msg, label); err != nil {
		return nil, nil, err
	}
	if err := dlpack.RequireMemory(perByte * textSize(label)); err != nil {
		return nil, nil, fmt.Errorf("bridge: label: %w", err)
	}
	if err := msg.EncodeLabel(label); err != nil {
		return nil, nil, err
	}
	return msg, report, nil
}

// cut divides the payload parts of tensors that Spread cuts, removes the parts of tensors whose packing an option has
// set, and then sets Part of all tensors. With Relay, the result has the parts of the relayed message, with the parts
// of the tensors in their places.
func cut(msg *tens.Message, label *tens.Label) error {
	count, same := int64(0), label.Relay == nil // the number of new parts, and whether they are unchanged in msg
	for i := range label.Tensors {
		t := &label.Tensors[i]
		if !t.IsDense() {
			same = false
			continue
		}
		if t.Parts < 2 {
			count++
			continue
		}
		dim, _, ok, err := Step(t)
		if err == nil && (!ok || int64(t.Parts) > t.Shape[dim]) {
			err = fmt.Errorf("the tensor cannot be cut into %d parts: %w", t.Parts, tens.ErrInvalid)
		}
		if err != nil {
			return fmt.Errorf("bridge: tensor %d: %w", i, err)
		}
		count += int64(t.Parts)
		same = false
	}
	if same {
		for i := range label.Tensors {
			label.Tensors[i].Part = i
		}
		return nil
	}
	if label.Relay != nil {
		count += int64(len(label.Relay.Parts))
	}
	if err := dlpack.RequireMemory(min(2*count, payload.Addressable) * int64(unsafe.Sizeof([]byte{}))); err != nil {
		return fmt.Errorf("bridge: %d parts: %w", count, err)
	}
	parts := make([][]byte, 0, count)
	var old []tens.Tensor // the tensors of the relayed message
	var used []bool       // which of its parts are in place
	if label.Relay != nil {
		was, err := label.Relay.DecodeLabel()
		if err != nil {
			return fmt.Errorf("bridge: relay: %w", err)
		}
		parts, old, used = append(parts, label.Relay.Parts...), was.Tensors, make([]bool, len(label.Relay.Parts))
		for i := range old {
			if at, n := places(&old[i], parts); label.Tensors[i].IsDense() {
				clear(parts[at : at+n])
			}
		}
		for i := range old { // unchanged tensors
			if at, n := places(&old[i], parts); !label.Tensors[i].IsDense() && !old[i].OnlyMetadata() {
				for k := range n {
					parts[at+k], used[at+k] = label.Relay.Parts[at+k], true
				}
			}
		}
	}
	for i, part := range msg.Parts {
		t := &label.Tensors[i]
		if !t.IsDense() {
			if old == nil {
				t.Part, t.Parts = len(parts), 0
			}
			continue
		}
		pieces := piecesOf(t, part)
		if old != nil {
			if at, n := places(&old[i], used); n == len(pieces) && areFree(used, parts, at, pieces) {
				t.Part = at
				for k, piece := range pieces {
					parts[at+k], used[at+k] = piece, true
				}
				continue
			}
		}
		t.Part = len(parts)
		parts = append(parts, pieces...)
	}
	msg.Parts = parts
	return nil
}

// places returns the index of the first part of a tensor and its number of parts, or 0 parts if some are not among the
// given ones.
func places[T any](t *tens.Tensor, parts []T) (at, n int) {
	if n = max(t.Parts, 1); t.Part > len(parts)-n {
		return 0, 0
	}
	return t.Part, n
}

// areFree reports whether the pieces of a tensor can be the parts that begin at index at: no other tensor has these
// parts, or it has the same memory there.
func areFree(used []bool, parts [][]byte, at int, pieces [][]byte) bool {
	for k, piece := range pieces {
		have := parts[at+k]
		if used[at+k] && (len(have) != len(piece) || unsafe.SliceData(have) != unsafe.SliceData(piece)) {
			return false
		}
	}
	return true
}

// piecesOf returns the payload parts of a tensor whose elements are in part. It must be possible to cut the tensor into
// its number of parts.
func piecesOf(t *tens.Tensor, part []byte) [][]byte {
	if t.Parts < 2 {
		return [][]byte{part}
	}
	dim, step, _, _ := Step(t)
	n, k := t.Shape[dim], int64(t.Parts)
	pieces := make([][]byte, 0, t.Parts)
	for range t.Parts {
		size := (n + k - 1) / k * step // bytes of a large piece; the large pieces come first
		pieces = append(pieces, part[:size:size])
		part, n, k = part[size:], n-size/step, k-1
	}
	return pieces
}

// perByte is an upper bound of the bytes of memory that encoding a label takes for each byte of its text.
const perByte = 16

// textSize returns an upper bound of the size of the names and the JSON text in an encoded label, but at most
// [payload.Addressable]. The tensors of a small label may share one text, so the encoded label may be larger than any
// memory.
func textSize(l *tens.Label) (size int64) {
	add := func(metadata []byte, extra tens.Attributes) {
		size = min(size+int64(len(metadata)), payload.Addressable)
		for _, a := range extra {
			size = min(size+int64(6*len(a.Name)+len(a.Value)), payload.Addressable) // an escape takes up to six bytes
		}
	}
	add(l.Metadata, l.Extra)
	add(nil, l.LabelExtra)
	if l.Relay != nil {
		size = 3*min(int64(len(l.Relay.Label)), payload.Addressable) + size // the old label is decoded too, for comparison
	}
	for i := range l.Tensors {
		add(l.Tensors[i].Metadata, l.Tensors[i].Extra)
	}
	return size
}

func encodeTensor(t *dlpack.Tensor) (out tens.Tensor, part []byte, why string, err error) {
	if err := t.RequireOpen(); err != nil {
		return out, nil, "", err
	}
	padded := t.Flags()&dlpack.SubbytePadded != 0
	shape, strides := t.Shape(), t.Strides()
	out, err = EncodeTensor(t.DType(), padded, shape, strides)
	if !errors.Is(err, dlpack.ErrLayout) {
		if err == nil {
			part, _, err = t.UnsafeBytes()
		}
		return out, part, "", err
	}
	why = fmt.Sprintf("strides %v of shape %v leave gaps or share elements", strides, shape)
	if strides, err = layout.AppendRowMajor(nil, shape); err == nil {
		part, err = t.AppendBytes(nil)
	}
	if err != nil {
		return out, nil, "", err
	}
	out, err = EncodeTensor(t.DType(), padded, shape, strides)
	return out, part, why, err
}
