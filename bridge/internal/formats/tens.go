//go:build cgo

package formats

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/tens"
	"github.com/dlbridge/dlbridge/tens/tenstest"
)

// TENS is the row of package bridge. Its bytes are a message in packed form.
var TENS = add(Format{
	Folder:  "bridge",
	Title:   "TENS",
	Several: true,
	Encode: func(values ...Named) ([]byte, error) {
		var ts []*dlpack.Tensor
		for _, v := range values {
			ts = append(ts, v.Tensor)
		}
		return appendTENS(nil, ts)
	},
	Decode: func(data []byte) (values []Named, err error) {
		msg, err := tens.DecodePacked(data)
		if err != nil {
			return nil, err
		}
		ts, err := bridge.Decode(msg, bridge.Writable(), nil)
		for _, t := range ts {
			values = append(values, Named{Tensor: t})
		}
		return values, err
	},
	Writers: []Writer{{
		"Encode",
		func(dst []byte, x *dlpack.Tensor) ([]byte, error) { return appendTENS(dst, []*dlpack.Tensor{x}, nil) },
		func(x *dlpack.Tensor) (int, error) {
			msg, _, err := bridge.Encode([]*dlpack.Tensor{x}, nil)
			if err != nil {
				return 0, err
			}
			return msg.PackedSize()
		},
	}},
	Readers: []Reader{{"DecodeParts", readParts}},
	Nils: []Nil{
		{"tens.Message.Validate", (*tens.Message)(nil).Validate, tens.ErrNil},
		{"tens.Message.DecodeLabel", func() error { _, err := (*tens.Message)(nil).DecodeLabel(); return err }, tens.ErrNil},
		{"tens.Message.EncodeLabel of nil", func() error { return (*tens.Message)(nil).EncodeLabel(new(tens.Label)) }, tens.ErrNil},
		{"tens.Message.EncodeLabel", func() error { return new(tens.Message).EncodeLabel(nil) }, tens.ErrNil},
		{"tens.Message.AppendPacked", func() error { _, err := (*tens.Message)(nil).AppendPacked(nil); return err }, tens.ErrNil},
		{"tens.Message.Encode", func() error { (*tens.Message)(nil).Encode(); return nil }, nil},
		{"tens.Label.Append", func() error { _, err := (*tens.Label)(nil).Append(nil); return err }, tens.ErrNil},
		{"tens.Tensor.NumBytes", func() error { _, err := (*tens.Tensor)(nil).NumBytes(); return err }, tens.ErrNil},
		{"tens.Tensor.Strides", func() error { _, _, err := (*tens.Tensor)(nil).Strides(); return err }, tens.ErrNil},
		{"DecodeTensor", func() error { _, err := bridge.DecodeTensor(nil); return err }, tens.ErrNil},
		{"Decode", func() error { _, err := bridge.Decode(nil); return err }, tens.ErrNil},
		{"DecodeParts", func() error { _, err := bridge.DecodeParts(nil, nil); return err }, tens.ErrNil},
	},
	Hostile: tenstest.Labels,
	Measure: measureTENS,
})

func appendTENS(dst []byte, ts []*dlpack.Tensor, options ...bridge.EncodeOption) ([]byte, error) {
	msg, _, err := bridge.Encode(ts, options...)
	if err != nil {
		return dst, err
	}
	return msg.AppendPacked(dst)
}

// readParts makes a tensor from the only part of a message, in the memory of data. It reads the label from a copy.
func readParts(data *dlpack.Tensor, align int) (Value, error) {
	label, part := new(tens.Label), data // for a closed tensor, for which DecodeParts returns the error
	if bytes, err := data.AppendBytes(nil); err == nil {
		msg, err := tens.DecodePacked(bytes)
		if err != nil {
			return Value{}, err
		}
		if label, err = msg.DecodeLabel(); err != nil {
			return Value{}, err
		}
		size := int64(len(msg.Parts[0])) // at the end of the message
		if part, err = data.Narrow(0, int64(len(bytes))-size, size); err != nil {
			return Value{}, err
		}
		defer part.Close()
	}
	var option bridge.DecodeOption
	if align > 0 {
		option = bridge.Align(align)
	}
	ts, err := bridge.DecodeParts(label, []*dlpack.Tensor{part}, option)
	if err != nil {
		return Value{}, err
	}
	return Value{Tensor: ts[0], Copied: ts[0].Flags()&dlpack.IsCopied != 0}, nil
}

// measureTENS decodes the tensors of a label with a part of one byte, in Go memory and in C memory.
func measureTENS(t testing.TB, label []byte, _ bool) {
	frames := tenstest.Frames(label)
	part, err := dlpack.FromSlice(frames[2])
	require.NoError(t, err)
	defer part.Close()
	for _, decode := range []func(*tens.Message) ([]*dlpack.Tensor, error){
		func(msg *tens.Message) ([]*dlpack.Tensor, error) { return bridge.Decode(msg) },
		func(msg *tens.Message) ([]*dlpack.Tensor, error) {
			label, err := msg.DecodeLabel()
			if err != nil {
				return nil, err
			}
			return bridge.DecodeParts(label, []*dlpack.Tensor{part})
		},
	} {
		amplification.Require(t, len(label), amplification.Label, 0, func() func() {
			msg, err := tens.Decode(frames)
			if err != nil {
				return nil
			}
			ts, _ := decode(msg)
			return func() {
				for _, x := range ts {
					x.Close()
				}
			}
		})
	}
}
