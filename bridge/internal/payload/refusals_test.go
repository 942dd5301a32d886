//go:build cgo

package payload_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/tens"
)

// An allocation by Go would end the process before the error for elements that cannot be read.
func TestElementsThatNoMemoryHasRoomForAreNotWritten(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	const size = 1<<47 - 1<<30 // of which there is less to be had, though it could be addressed
	one, err := dlpack.FromSlice([]uint8{1})
	require.NoError(t, err)
	defer one.Close()
	wide, err := one.Broadcast(size)
	require.NoError(t, err)
	defer wide.Close()
	closed, err := one.Broadcast(size)
	require.NoError(t, err)
	closed.Close()
	p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: int32(dlpack.CUDA), Shape: []int64{size}, Code: uint8(dlpack.CodeUInt), Bits: 8, Lanes: 1})
	device, err := dlpack.Import(p.Managed())
	require.NoError(t, err)
	defer device.Close()

	// Ranges of a third of the address space are mapped until there is no room for another one. Where they fit depends on where Go's
	// heap lies, which is random.
	var third []byte
	for {
		mapped, err := syscall.Mmap(-1, 0, size/3, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
		if err == syscall.ENOMEM && third != nil {
			break
		}
		require.NoError(t, err)
		defer func() { assert.NoError(t, syscall.Munmap(mapped)) }()
		third = mapped
	}
	once, err := dlpack.FromSlice(third)
	require.NoError(t, err)
	defer once.Close()

	// tensorflow refuses first what no reader of protocol buffers accepts.
	tooLargeOr := func(t *testing.T, want, err error) {
		assert.True(t, errors.Is(err, dlpack.ErrOverflow) || want != dlpack.ErrMemory && errors.Is(err, want), "%v", err)
		assert.ErrorContains(t, err, "tensorflow: ")
	}
	for _, tt := range []struct {
		name   string
		tensor *dlpack.Tensor
		want   error
	}{
		{"memory that cannot be had twice", once, dlpack.ErrMemory},
		{"a byte that is seen often", wide, dlpack.ErrMemory},
		{"memory of a device", device, dlpack.ErrDevice},
		{"a closed tensor", closed, dlpack.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := []byte{1, 2}
			out, err := decthings.AppendTensor(before, tt.tensor)
			assert.ErrorIs(t, err, tt.want)
			assert.ErrorContains(t, err, "decthings: ")
			assert.Equal(t, before, out)
			out, err = tensorflow.AppendTensor(before, tt.tensor)
			tooLargeOr(t, tt.want, err)
			assert.Equal(t, before, out)
			out, err = tensorflow.AppendTensor(before, tt.tensor, tensorflow.Fields())
			tooLargeOr(t, tt.want, err)
			assert.Equal(t, before, out)
		})
	}

	elementsOf := func(name string) *elements.Elements {
		return &elements.Elements{Type: name, Shape: []int64{1}, Values: [][]byte{third}}
	}
	small, err := dlpack.FromSlice([]uint8{1, 2, 3})
	require.NoError(t, err)
	defer small.Close()
	for _, tt := range []struct {
		name   string
		append func(dst []byte) ([]byte, error)
		want   error
	}{
		{"decthings.AppendElements", func(dst []byte) ([]byte, error) {
			return decthings.AppendElements(dst, elementsOf("binary"), decthings.Doc)
		}, dlpack.ErrMemory},
		{"decthings.View.Append", func(dst []byte) ([]byte, error) {
			v := decthings.View{Type: decthings.U8, Shape: []int64{int64(len(third))}, Data: third}
			return v.Append(dst, decthings.Doc)
		}, dlpack.ErrMemory},
		{"tensorflow.AppendElements", func(dst []byte) ([]byte, error) {
			return tensorflow.AppendElements(dst, elementsOf("string"))
		}, dlpack.ErrOverflow},
		{"tensorflow.View.Append", func(dst []byte) ([]byte, error) {
			v := tensorflow.View{DType: tensorflow.UInt8, Shape: []int64{int64(len(third))}, Data: third}
			return v.Append(dst)
		}, dlpack.ErrOverflow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := []byte{1, 2}
			out, err := tt.append(before)
			assert.ErrorIs(t, err, tt.want)
			assert.Equal(t, before, out)
		})
	}
	for _, tt := range []struct {
		name   string
		append func(dst []byte) ([]byte, error)
	}{
		{"decthings.AppendTensor", func(dst []byte) ([]byte, error) { return decthings.AppendTensor(dst, small) }},
		{"tensorflow.AppendTensor", func(dst []byte) ([]byte, error) { return tensorflow.AppendTensor(dst, small) }},
		{"dlpack.Tensor.AppendBytes", func(dst []byte) ([]byte, error) { return small.AppendBytes(dst) }},
	} {
		t.Run(tt.name+" behind what cannot be had twice", func(t *testing.T) {
			out, err := tt.append(third)
			assert.ErrorIs(t, err, dlpack.ErrMemory)
			assert.True(t, len(out) == len(third) && &out[0] == &third[0])
		})
	}
}

// A nil tensor, the zero Tensor and a closed tensor are ErrClosed, and nothing is appended.
func TestTensorsThatAreNotOpenAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	closed, err := dlpack.FromSlice([]uint8{1})
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	label := &tens.Label{}
	before := []byte{1, 2}
	appended := func(out []byte, err error) error {
		assert.Equal(t, before, out)
		return err
	}
	for name, tensor := range map[string]*dlpack.Tensor{"nil": nil, "zero": new(dlpack.Tensor), "closed": closed} {
		for _, use := range []struct {
			name string
			with func() error
		}{
			{"bridge.Encode", func() error { _, _, err := bridge.Encode([]*dlpack.Tensor{tensor}); return err }},
			{"bridge.DecodeParts", func() error { _, err := bridge.DecodeParts(label, []*dlpack.Tensor{tensor}); return err }},
			{"decthings.AppendTensor", func() error { return appended(decthings.AppendTensor(before, tensor)) }},
			{"decthings.SizeTensor", func() error { _, err := decthings.SizeTensor(tensor); return err }},
			{"decthings.DecodeFrom", func() error { _, err := decthings.DecodeFrom(tensor); return err }},
			{"decthings.DecodeFirstFrom", func() error { _, _, err := decthings.DecodeFirstFrom(tensor); return err }},
			{"tensorflow.AppendTensor", func() error { return appended(tensorflow.AppendTensor(before, tensor)) }},
			{"tensorflow.AppendTensor with Fields", func() error { return appended(tensorflow.AppendTensor(before, tensor, tensorflow.Fields())) }},
			{"tensorflow.SizeTensor", func() error { _, err := tensorflow.SizeTensor(tensor); return err }},
			{"tensorflow.Export", func() error { _, err := tensorflow.Export(tensor); return err }},
			{"tensorflow.DecodeFrom", func() error { _, err := tensorflow.DecodeFrom(tensor); return err }},
		} {
			t.Run(use.name+" of "+name, func(t *testing.T) {
				var err error
				require.NotPanics(t, func() { err = use.with() })
				require.ErrorIs(t, err, dlpack.ErrClosed)
				assert.ErrorContains(t, err, "the tensor is ")
				assert.ErrorContains(t, err, name)
			})
		}
	}
}

func TestNilOptionsChangeNothing(t *testing.T) {
	tensor, err := dlpack.FromSlice([]uint8{1, 2, 3})
	require.NoError(t, err)
	defer tensor.Close()

	message, _, err := bridge.Encode([]*dlpack.Tensor{tensor}, nil)
	require.NoError(t, err)
	tensors, err := bridge.Decode(message, nil)
	require.NoError(t, err)
	require.Len(t, tensors, 1)
	assert.NoError(t, tensors[0].Close())

	data, err := decthings.AppendTensor(nil, tensor)
	require.NoError(t, err)
	value, err := decthings.Decode(data, nil)
	require.NoError(t, err)
	assert.NoError(t, value.Tensor.Close())

	data, err = tensorflow.AppendTensor(nil, tensor, nil)
	require.NoError(t, err)
	decoded, err := tensorflow.Decode(data, nil)
	require.NoError(t, err)
	assert.NoError(t, decoded.Tensor.Close())
}

func TestNilArgumentsAreErrors(t *testing.T) {
	var message *tens.Message
	var label *tens.Label
	var described *tens.Tensor
	var elems *elements.Elements
	var rules *decthings.Rules
	for _, use := range []struct {
		name string
		with func() error
		want error
	}{
		{"Message.Validate", message.Validate, tens.ErrNil},
		{"Message.TENS", func() error { _, err := message.DecodeLabel(); return err }, tens.ErrNil},
		{"Message.EncodeLabel of nil", func() error { return message.EncodeLabel(new(tens.Label)) }, tens.ErrNil},
		{"Message.EncodeLabel", func() error { return new(tens.Message).EncodeLabel(nil) }, tens.ErrNil},
		{"Message.AppendPacked", func() error { _, err := message.AppendPacked(nil); return err }, tens.ErrNil},
		{"Label.Append", func() error { _, err := label.Append(nil); return err }, tens.ErrNil},
		{"Tensor.NumBytes", func() error { _, err := described.NumBytes(); return err }, tens.ErrNil},
		{"Tensor.Strides", func() error { _, _, err := described.Strides(); return err }, tens.ErrNil},
		{"bridge.DecodeTensor", func() error { _, err := bridge.DecodeTensor(nil); return err }, tens.ErrNil},
		{"bridge.Decode", func() error { _, err := bridge.Decode(nil); return err }, tens.ErrNil},
		{"bridge.DecodeParts", func() error { _, err := bridge.DecodeParts(nil, nil); return err }, tens.ErrNil},
		{"Elements.Validate", elems.Validate, elements.ErrElements},
		{"decthings.AppendElements", func() error { _, err := decthings.AppendElements(nil, nil, decthings.Doc); return err }, elements.ErrElements},
		{"decthings.SizeElements", func() error { _, err := decthings.SizeElements(nil, decthings.Doc); return err }, elements.ErrElements},
		{"tensorflow.AppendElements", func() error { _, err := tensorflow.AppendElements(nil, nil); return err }, elements.ErrElements},
		{"tensorflow.SizeElements", func() error { _, err := tensorflow.SizeElements(nil); return err }, elements.ErrElements},
		{"Rules.Check", func() error { return rules.Check(decthings.F32, nil) }, decthings.ErrRules},
	} {
		t.Run(use.name, func(t *testing.T) {
			var err error
			require.NotPanics(t, func() { err = use.with() })
			assert.ErrorIs(t, err, use.want)
			assert.ErrorContains(t, err, "nil")
		})
	}
	assert.Nil(t, message.Encode())
	assert.Equal(t, "<nil>", elems.String())
	assert.NoError(t, (*decthings.Value)(nil).Close())
	assert.Nil(t, (*decthings.Value)(nil).Shape())
	assert.NoError(t, (*tensorflow.Value)(nil).Close())
	assert.Nil(t, (*tensorflow.Value)(nil).Shape())
}
