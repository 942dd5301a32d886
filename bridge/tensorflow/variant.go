package tensorflow

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
)

// A VariantData is a VariantTensorDataProto: one element of a tensor of variants (tensor.proto). It aliases
// its message.
type VariantData struct {
	// TypeName determines the meaning of Metadata and Tensors, such as tensorflow::TensorList.
	TypeName string
	Metadata []byte
	// Tensors has encoded TensorProto messages, for [DecodeView]. Their elements may themselves be variants; the caller
	// decides how deep to decode them.
	Tensors [][]byte
}

// DecodeVariant decodes a VariantTensorDataProto: the bytes of an element of type variant.
//
// Errors: an [*elements.Error] with [ErrWire] or [ErrText].
func DecodeVariant(data []byte) (VariantData, error) {
	var v VariantData
	var f record
	r := reader{data: data}
	for r.next(&f) {
		switch {
		case f.typ != protowire.BytesType:
		case f.num == 1:
			if !utf8.Valid(f.value) {
				return VariantData{}, newError(f.at, ErrText, "type_name")
			}
			v.TypeName = string(f.value)
		case f.num == 2:
			v.Metadata = f.value
		case f.num == 3:
			if v.Tensors == nil {
				v.Tensors = make([][]byte, 0, 1+r.count(3))
			}
			v.Tensors = append(v.Tensors, f.value)
		}
	}
	if f.err != nil {
		return VariantData{}, f.err
	}
	return v, nil
}

// Append appends the data as a VariantTensorDataProto: the inverse of [DecodeVariant].
//
// Errors: [ErrText], [dlpack.ErrOverflow] for more than [MaxSize] bytes, [dlpack.ErrMemory], [elements.ErrNil] for a nil
// VariantData; dst is then returned unchanged.
func (v *VariantData) Append(dst []byte) ([]byte, error) {
	if v == nil {
		return dst, fmt.Errorf("tensorflow: the VariantData is %w", elements.ErrNil)
	}
	if !utf8.ValidString(v.TypeName) {
		return dst, fmt.Errorf("tensorflow: type name %.40q: %w", v.TypeName, ErrText)
	}
	size := sizeBytes(1, len(v.TypeName)) + sizeBytes(2, len(v.Metadata))
	longest := max(len(v.TypeName), len(v.Metadata))
	for _, tensor := range v.Tensors {
		size += sizeBytes(3, len(tensor))
		longest = max(longest, len(tensor))
		if size > MaxSize { // the sum must not overflow
			break
		}
	}
	if err := checkSize("VariantTensorDataProto", size, longest); err != nil {
		return dst, err
	}
	dst, err := room(dst, 0, size, 0)
	if err != nil {
		return dst, err
	}
	dst = appendText(dst, 1, v.TypeName)
	if len(v.Metadata) > 0 {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 2, protowire.BytesType), v.Metadata)
	}
	for _, tensor := range v.Tensors {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 3, protowire.BytesType), tensor)
	}
	return dst, nil
}

// sizeBytes returns the size of a field with n bytes of content, including its tag and its length.
func sizeBytes(num protowire.Number, n int) int {
	return protowire.SizeTag(num) + protowire.SizeBytes(n)
}
