//go:build cgo

package bridge

import (
	"errors"
	"fmt"
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

// An EncodeOption changes the label of a message that [Encode] returns. The label has the descriptions of all tensors,
// in their order. An option must not change the shape, data type or layout of a tensor. If it sets the packing of a
// tensor to another one than "dense", Encode makes no payload part for that tensor, and its elements must travel in
// another way.
type EncodeOption func(*tens.Label) error

// Metadata sets TENS.metadata, a JSON object.
func Metadata(object []byte) EncodeOption {
	return func(l *tens.Label) error { l.Metadata = object; return nil }
}

// TensorMetadata sets the metadata of tensor i, a JSON object of scalars. Objects and arrays belong in [Metadata]. A name that
// [Names] has given the tensor stays.
func TensorMetadata(i int, object []byte) EncodeOption {
	return func(l *tens.Label) error {
		if i < 0 || i >= len(l.Tensors) {
			return fmt.Errorf("metadata for tensor %d of %d: %w", i, len(l.Tensors), tens.ErrInvalid)
		}
		name := l.Tensors[i].Name()
		l.Tensors[i].Metadata = object
		if name == "" {
			return nil
		}
		return named(l, i, name)
	}
}

// Names names the tensors: names[i] is the name of tensor i, and "" leaves it as it is. A name is the text "name" in the metadata of its
// tensor. [tens.Label.Find] finds the tensor of a name, [tens.Tensor.Name] the name of a tensor.
//
// Errors: [tens.ErrInvalid] for names of fewer or more tensors than there are; for a name that is not UTF-8, that another tensor has, or
// that differs from the name in the metadata of its tensor.
func Names(names ...string) EncodeOption {
	return func(l *tens.Label) error {
		if len(names) != len(l.Tensors) {
			return fmt.Errorf("names of %d tensors for %d: %w", len(names), len(l.Tensors), tens.ErrInvalid)
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

// Spread cuts tensors of more than the given number of bytes into pieces of at most that many, and of equal size as far
// as possible, each in a payload part of its own (see package tens). A piece has at least one index of the slowest
// dimension, even if that takes more bytes. The parts alias the memory of the tensor. A tensor that cannot be cut is in
// one part (see [Step]), and one without a part, because an option has set its packing, is left alone. The receiver must know the attribute parts, which is an extension of package tens.
//
// Errors: [tens.ErrInvalid] for less than one byte.
func Spread(bytes int64) EncodeOption {
	return func(l *tens.Label) error {
		if bytes < 1 {
			return fmt.Errorf("spread: a piece has at least one byte, not %d: %w", bytes, tens.ErrInvalid)
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
			n, count := t.Shape[dim], max(bytes/step, 1) // how many indices there are, and how many of them a piece may have
			if n > count {
				t.Parts = int((n-1)/count + 1)
			}
		}
		return nil
	}
}

// Encode returns a message with the form TENS, the level 0 and a label. It has one payload part for each tensor, except that
// [Spread] makes several, and that a tensor whose packing an option sets has none. A part aliases the memory of its tensor if
// the layout has no gaps and no shared elements, in any order and direction of the dimensions; otherwise the part is a
// copy in C order. The caller sets Origin, Granule and Seqno.
//
// Ownership: the tensors stay the caller's. Lifetime: they must stay open while the message is in use, because its
// parts are slices of their memory that do not keep it alive. Threads: any. On error: [elements.ErrDType],
// [dlpack.ErrDevice], [dlpack.ErrClosed] or [dlpack.ErrMemory], with the index of the tensor;
// [dlpack.ErrMemory] if there is too little memory for the label; the error of an option; or one of package tens for
// metadata that is not a JSON object, or for a tensor's metadata if one of its values is an object or array.
func Encode(ts []*dlpack.Tensor, options ...EncodeOption) (*tens.Message, *Report, error) {
	msg := &tens.Message{Form: [4]byte{'T', 'E', 'N', 'S'}, Parts: make([][]byte, len(ts))}
	label := &tens.Label{Tensors: make([]tens.Tensor, len(ts))}
	report := &Report{Copied: make([]string, len(ts))}
	for i, t := range ts {
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

// cut divides the payload parts of tensors that are to have several, removes the parts of tensors whose packing an
// option has set, and then sets Part of all tensors.
func cut(msg *tens.Message, label *tens.Label) error {
	count, same := int64(0), true // the number of parts, and whether they are those of msg
	for i := range label.Tensors {
		t := &label.Tensors[i]
		if !t.IsDense() {
			t.Part, t.Parts = int(count), 0
			same = false
			continue
		}
		if t.Parts < 2 {
			t.Part = int(count)
			count++
			continue
		}
		dim, _, ok, err := Step(t)
		if err == nil && (!ok || int64(t.Parts) > t.Shape[dim]) {
			err = fmt.Errorf("it cannot be cut into %d parts: %w", t.Parts, tens.ErrInvalid)
		}
		if err != nil {
			return fmt.Errorf("bridge: tensor %d: %w", i, err)
		}
		t.Part = int(count)
		count += int64(t.Parts)
		same = false
	}
	if same {
		return nil
	}
	if err := dlpack.RequireMemory(min(count, payload.Addressable) * int64(unsafe.Sizeof([]byte{}))); err != nil {
		return fmt.Errorf("bridge: %d parts: %w", count, err)
	}
	parts := make([][]byte, 0, count)
	for i, part := range msg.Parts {
		t := &label.Tensors[i]
		if !t.IsDense() {
			continue
		}
		if t.Parts < 2 {
			parts = append(parts, part)
			continue
		}
		dim, step, _, _ := Step(t)
		n, k := t.Shape[dim], int64(t.Parts)
		for range k {
			size := (n + k - 1) / k * step // bytes of a larger piece; the larger pieces come first
			parts = append(parts, part[:size:size])
			part, n, k = part[size:], n-size/step, k-1
		}
	}
	msg.Parts = parts
	return nil
}

// perByte is an upper bound of how many bytes of memory the encoding of a label takes for each byte of its text.
const perByte = 16

// textSize returns an upper bound of the size of the names and the JSON text in an encoded label, and at most
// [payload.Addressable]. The tensors of a small label may share one text, so that the encoded label may be larger than any memory.
func textSize(l *tens.Label) (size int64) {
	add := func(metadata []byte, extra tens.Attributes) {
		size = min(size+int64(len(metadata)), payload.Addressable)
		for _, a := range extra {
			size = min(size+int64(6*len(a.Name)+len(a.Value)), payload.Addressable) // an escape takes up to six bytes
		}
	}
	add(l.Metadata, l.Extra)
	add(nil, l.LabelExtra)
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
