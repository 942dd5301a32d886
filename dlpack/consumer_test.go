//go:build cgo

package dlpack_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func importConfig(t *testing.T, c dlpacktest.Config, options ...dlpack.ImportOption) (*dlpacktest.Producer, *dlpack.Tensor, error) {
	t.Helper()
	p := dlpacktest.Produce(t, c)
	if c.Legacy {
		tensor, err := dlpack.ImportLegacy(p.Managed(), options...)
		return p, tensor, err
	}
	tensor, err := dlpack.Import(p.Managed(), options...)
	return p, tensor, err
}

func rank(n int32) *int32 { return &n }

// hostile has descriptions, each with the cause of its error. Valid descriptions have no cause.
var hostile = []struct {
	name   string
	config dlpacktest.Config
	cause  error
	where  string
}{
	{"plain", dlpacktest.Config{Shape: []int64{2, 3}}, nil, ""},
	{"strided", dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{1, 2}}, nil, ""},
	{"negative stride", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{-1}, ByteOffset: 12}, nil, ""},
	{"broadcast", dlpacktest.Config{Shape: []int64{4, 2}, Strides: []int64{0, 1}}, nil, ""},
	{"gaps", dlpacktest.Config{Shape: []int64{2, 2}, Strides: []int64{8, 2}}, nil, ""},
	{"rank 0", dlpacktest.Config{}, nil, ""},
	{"rank 0 with a shape pointer", dlpacktest.Config{Shape: []int64{7}, NDim: rank(0)}, nil, ""},
	{"zero size", dlpacktest.Config{Shape: []int64{0, 3}}, nil, ""},
	{"zero size, NULL data", dlpacktest.Config{Shape: []int64{3, 0}, NullData: true}, nil, ""},
	{"zero size beside huge ones", dlpacktest.Config{Shape: []int64{math.MaxInt64, 0, math.MaxInt64}}, nil, ""},
	{"zero size with wild strides", dlpacktest.Config{Shape: []int64{0, 9}, Strides: []int64{math.MaxInt64, math.MinInt64}}, nil, ""},
	{"size 1 with an odd stride", dlpacktest.Config{Shape: []int64{1, 4}, Strides: []int64{math.MaxInt64, 1}}, nil, ""},
	{"minor 99", dlpacktest.Config{Major: 1, Minor: 99, Shape: []int64{2}}, nil, ""},
	{"unknown flags", dlpacktest.Config{Flags: 1 << 40, Shape: []int64{2}}, nil, ""},
	{"data off by one", dlpacktest.Config{Shape: []int64{2}, Shift: 1}, nil, ""},
	{"bfloat16", dlpacktest.Config{Code: 4, Bits: 16, Lanes: 1, Shape: []int64{2}}, nil, ""},
	{"float32x4", dlpacktest.Config{Code: 2, Bits: 32, Lanes: 4, Shape: []int64{2}}, nil, ""},
	{"float4 packed", dlpacktest.Config{Code: 17, Bits: 4, Lanes: 1, Shape: []int64{3, 5}}, nil, ""},
	{"float4 padded", dlpacktest.Config{Code: 17, Bits: 4, Lanes: 1, Shape: []int64{3, 5}, Flags: 4}, nil, ""},
	{"int4 padded with strides", dlpacktest.Config{Code: 0, Bits: 4, Lanes: 1, Shape: []int64{3, 5}, Strides: []int64{1, 3}, Flags: 4}, nil, ""},
	{"unknown device", dlpacktest.Config{DeviceType: 99, DeviceID: -3, Shape: []int64{2}}, nil, ""},
	{"device with an offset", dlpacktest.Config{DeviceType: 8, ByteOffset: math.MaxUint64, Shape: []int64{2}}, nil, ""},

	{"ndim -1", dlpacktest.Config{NDim: rank(-1)}, dlpack.ErrLayout, "ndim = -1 is not in 0..256"},
	{"ndim 257", dlpacktest.Config{NDim: rank(257), Shape: []int64{1}}, dlpack.ErrLayout, "ndim = 257 is not in 0..256"},
	{"ndim at its largest", dlpacktest.Config{NDim: rank(math.MaxInt32), Shape: []int64{1}}, dlpack.ErrLayout, "ndim = 2147483647 is not in 0..256"},
	{"NULL shape", dlpacktest.Config{Shape: []int64{2}, NullShape: true}, dlpack.ErrNull, "shape is NULL, but ndim is 1"},
	{"NULL data", dlpacktest.Config{Shape: []int64{2}, NullData: true}, dlpack.ErrNull, "data is NULL, but the tensor has 2 elements"},
	{"shape below all memory", dlpacktest.Config{Shape: []int64{2}, ShapeAt: 8}, dlpack.ErrNull, "shape at 0x8 or strides at 0x0 lies below address 4096"},
	{"strides below all memory", dlpacktest.Config{Shape: []int64{2}, StridesAt: 4088}, dlpack.ErrNull, "or strides at 0xff8 lies below address 4096"},
	{"no shape at rank 0, as Rust has it", dlpacktest.Config{NDim: rank(0), ShapeAt: 8, StridesAt: 8}, nil, ""},
	{"NULL data, rank 0", dlpacktest.Config{NullData: true}, dlpack.ErrNull, "data is NULL, but the tensor has 1 element"},
	{"negative size", dlpacktest.Config{Shape: []int64{2, -3}}, dlpack.ErrLayout, "shape[1] is -3, must not be negative"},
	{"negative size behind a zero", dlpacktest.Config{Shape: []int64{0, -1}}, dlpack.ErrLayout, "shape[1] is -1, must not be negative"},
	{"two negative sizes", dlpacktest.Config{Shape: []int64{-2, -3}}, dlpack.ErrLayout, "shape[0] is -2, must not be negative"},
	{"product wraps to 0", dlpacktest.Config{Shape: []int64{1 << 32, 1 << 32}}, dlpack.ErrOverflow, "shape has more than 2^63-1 elements from axis 1 on"},
	{"bytes wrap", dlpacktest.Config{Shape: []int64{1 << 62}}, dlpack.ErrOverflow, "4611686018427387904 elements of 4 bytes overflow"},
	{"packed bits wrap", dlpacktest.Config{Code: 17, Bits: 4, Lanes: 1, Shape: []int64{1 << 62}}, dlpack.ErrOverflow, "4611686018427387904 elements of 4 bits overflow"},
	{"stride overflows", dlpacktest.Config{Shape: []int64{3, 2}, Strides: []int64{math.MaxInt64, 1}}, dlpack.ErrOverflow, "strides[0] = 9223372036854775807 with shape[0] = 3 overflows"},
	{"least stride", dlpacktest.Config{Shape: []int64{3}, Strides: []int64{math.MinInt64}}, dlpack.ErrOverflow, "strides[0] = -9223372036854775808 with shape[0] = 3 overflows"},
	{"strides add up to an overflow", dlpacktest.Config{Shape: []int64{2, 2}, Strides: []int64{1 << 62, 1 << 62}}, dlpack.ErrOverflow, "strides[0] = 4611686018427387904 with shape[0] = 2 overflows"},
	{"strides in bytes overflow", dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1 << 61}}, dlpack.ErrOverflow, "the strides span more than 2^63-1 bytes"},
	{"strides reach far both ways", dlpacktest.Config{Code: 1, Bits: 8, Lanes: 1, Shape: []int64{2, 2}, Strides: []int64{-1 << 62, 1 << 62}, ByteOffset: 1 << 62}, dlpack.ErrOverflow, "the strides span more than 2^63-1 bytes"},
	{"they do on a device", dlpacktest.Config{DeviceType: 2, Shape: []int64{2, 2}, Strides: []int64{-1 << 60, 1 << 60}}, dlpack.ErrOverflow, "the strides span more than 2^63-1 bytes"},
	{"byte_offset wraps", dlpacktest.Config{Shape: []int64{2}, ByteOffset: math.MaxUint64}, dlpack.ErrOverflow, " with byte_offset = 18446744073709551615 leads outside the address space"},
	{"below address 0", dlpacktest.Config{Shape: []int64{2}, Strides: []int64{-1 << 60}}, dlpack.ErrOverflow, "byte_offset = 0 leads outside the address space"},
	{"code 99", dlpacktest.Config{Code: 99, Bits: 8, Lanes: 1, Shape: []int64{2}}, dlpack.ErrDType, "dtype = (code 99, bits 8, lanes 1): code 99 is unknown, codes are 0 to 17"},
	{"bool of 1 bit", dlpacktest.Config{Code: 6, Bits: 1, Lanes: 1, Shape: []int64{2}}, dlpack.ErrDType, "dtype = (code 6, bits 1, lanes 1): bool has 8 bits, not 1"},
	{"uint of 1 bit", dlpacktest.Config{Code: 1, Bits: 1, Lanes: 1, Shape: []int64{2}}, dlpack.ErrDType, "dtype = (code 1, bits 1, lanes 1): uint has 2, 4, 8, 16, 32, 64 bits, not 1"},
	{"float of 128 bits", dlpacktest.Config{Code: 2, Bits: 128, Lanes: 1, Shape: []int64{2}}, dlpack.ErrDType, "dtype = (code 2, bits 128, lanes 1): float has 16, 32, 64 bits, not 128"},
	{"no lanes", dlpacktest.Config{Code: 2, Bits: 32, Lanes: 0, Shape: []int64{2}}, dlpack.ErrDType, "dtype = (code 2, bits 32, lanes 0): lanes must be at least 1"},
	{"no bits", dlpacktest.Config{Code: 0, Bits: 0, Lanes: 1, Shape: []int64{2}}, dlpack.ErrDType, "dtype = (code 0, bits 0, lanes 1): int has 2, 4, 8, 16, 32, 64 bits, not 0"},
	{"packed with gaps", dlpacktest.Config{Code: 17, Bits: 4, Lanes: 1, Shape: []int64{3, 5}, Strides: []int64{1, 3}}, dlpack.ErrLayout, "packed elements of 4 bits must be row-major without gaps"},
}

// A refused tensor is not released, and an imported tensor is released once.
func TestDeleterRunsOnceIfTakenAndNeverIfRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, legacy := range []bool{false, true} {
		for _, test := range hostile {
			if legacy && test.config.Flags != 0 {
				continue
			}
			name := test.name
			if legacy {
				name += ", legacy"
			}
			t.Run(name, func(t *testing.T) {
				test.config.Legacy = legacy
				p, tensor, err := importConfig(t, test.config)
				if test.cause == nil {
					require.NoError(t, err)
					assert.Zero(t, p.Deletes())
					require.NoError(t, tensor.Close())
					require.NoError(t, tensor.Close())
					assert.Equal(t, 1, p.Deletes())
					return
				}
				require.ErrorIs(t, err, test.cause)
				assert.ErrorContains(t, err, test.where)
				assert.Nil(t, tensor)
				assert.Zero(t, p.Deletes(), "the caller still owns what was refused")
			})
		}
	}
}

// The checks of Import and of the C core give the same results and the same texts.
func TestValidatorsAgree(t *testing.T) {
	for _, test := range hostile {
		t.Run(test.name, func(t *testing.T) {
			p := dlpacktest.Produce(t, test.config)
			flags := dlpack.Flags(test.config.Flags)
			inC, inGo := dlpack.CheckTensorInC(p.DLTensor(false), flags), dlpack.CheckTensorInGo(p.DLTensor(false), flags)
			assert.Equal(t, inC, inGo)
			assert.Equal(t, test.cause, inC.Status)
		})
	}
	assert.Equal(t, dlpack.ErrNull, dlpack.CheckTensorInC(nil, 0).Status)
	assert.Equal(t, dlpack.ErrNull, dlpack.CheckTensorInGo(nil, 0).Status)
}

func TestImportRefusesPointersThatAreNoTensor(t *testing.T) {
	must.Fail(dlpack.Import(nil))(t, dlpack.ErrNull)
	must.Fail(dlpack.ImportLegacy(nil))(t, dlpack.ErrNull)
	must.Fail(dlpack.Borrow(nil))(t, dlpack.ErrNull)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{2}})
	must.Fail(dlpack.Import(unsafe.Add(p.Managed(), 4)))(t, dlpack.ErrUnaligned)
}

func TestNullDeleterIsNeverCalled(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, legacy := range []bool{false, true} {
		p, tensor, err := importConfig(t, dlpacktest.Config{Legacy: legacy, Shape: []int64{2}, NullDeleter: true})
		require.NoError(t, err)
		m := must.Do(tensor.Export())(t)
		assert.False(t, dlpacktest.Read(m).NullDeleter, "what we hand out has one")
		require.NoError(t, tensor.Close())
		dlpack.Release(m)
		assert.Zero(t, p.Deletes())
	}
}

// Exports by C code also have the library's deleters, but their blocks are not from Go's caches.
func TestReleaseOfWhatCodeInCExported(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	before := dlpack.ReadStats().Exports
	for range 300 {
		m, l := dlpacktest.ExportInC(false), dlpacktest.ExportInC(true)
		assert.Equal(t, before+2, dlpack.ReadStats().Exports)
		dlpack.Release(m)
		dlpack.ReleaseLegacy(l)
		m, l = dlpacktest.ExportInC(false), dlpacktest.ExportInC(true)
		tensor := must.Do(dlpack.Import(m))(t)
		again := export(t, tensor)
		tensor.Close()
		dlpack.Release(again)
		tensor = must.Do(dlpack.ImportLegacy(l))(t)
		tensor.Close()
		assert.Equal(t, before, dlpack.ReadStats().Exports)
	}
}

func TestEmptyTensorsAreReleasedOnce(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, shape := range [][]int64{{0}, {0, 3}, {3, 0}} {
		for _, null := range []bool{false, true} {
			p, tensor, err := importConfig(t, dlpacktest.Config{Shape: shape, NullData: null})
			require.NoError(t, err)
			m := must.Do(tensor.Export())(t)
			assert.Zero(t, dlpacktest.Read(m).Data)
			require.NoError(t, tensor.Close())
			assert.Zero(t, p.Deletes())
			dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
			assert.Equal(t, 1, p.Deletes())
		}
		tensor := must.Do(dlpack.FromSlice([]float32{}, shape...))(t)
		m := must.Do(tensor.Export())(t)
		assert.Zero(t, dlpacktest.Read(m).Data)
		tensor.Close()
		dlpack.Release(m)
	}
}

func TestViewsKeepTheImport(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p, tensor, err := importConfig(t, dlpacktest.Config{Shape: []int64{8}})
	require.NoError(t, err)
	view := must.Do(tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 2}, Strides: []int64{4, 1}, ByteOffset: 8}))(t)
	require.NoError(t, tensor.Close())
	tensor = nil
	for range 5 {
		runtime.GC()
	}
	assert.Zero(t, p.Deletes())
	dlpacktest.Fill(p.Managed(), 3)
	m := must.Do(view.Export())(t)
	assert.Equal(t, 12.0, dlpacktest.Sum(m))
	require.NoError(t, view.Close())
	assert.Zero(t, p.Deletes(), "the export holds it")
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	assert.Equal(t, 1, p.Deletes(), "released by the consumer's thread, without Go")
}

func TestOtherMajorVersionIsReleasedAndNotRead(t *testing.T) {
	for _, major := range []uint32{0, 2, 1 << 31} {
		p := dlpacktest.ProduceGuarded(t, major)
		tensor, err := dlpack.Import(p.Managed())
		require.ErrorIs(t, err, dlpack.ErrVersion)
		assert.Nil(t, tensor)
		assert.Equal(t, 1, p.Deletes(), "the standard's exception: the deleter has been called")
	}
}

func TestReadOnlyGivesNoMutableSlice(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	_, tensor, err := importConfig(t, dlpacktest.Config{Shape: []int64{4}, Flags: uint64(dlpack.ReadOnly)})
	require.NoError(t, err)
	defer tensor.Close()
	assert.True(t, tensor.ReadOnly())
	must.Fail(dlpack.Values[float32](tensor))(t, dlpack.ErrReadOnly)
	values := must.Do(dlpack.UnsafeValues[float32](tensor))(t)
	assert.Len(t, values, 4)
	must.Fail(tensor.ExportLegacy())(t, dlpack.ErrReadOnly)
	m := must.Do(tensor.Export())(t)
	assert.Equal(t, uint64(dlpack.ReadOnly), dlpacktest.Read(m).Flags)
	dlpack.Release(m)
	view := must.Do(tensor.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{16}}))(t)
	assert.True(t, view.ReadOnly(), "a view of read-only memory is read-only")
	view.Close()
}

func TestLegacyWritabilityIsUnstated(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	_, tensor, err := importConfig(t, dlpacktest.Config{Legacy: true, Shape: []int64{4}})
	require.NoError(t, err)
	assert.True(t, tensor.ReadOnly())
	must.Fail(dlpack.Values[float32](tensor))(t, dlpack.ErrReadOnly)
	m := must.Do(tensor.Export())(t)
	assert.Equal(t, uint64(dlpack.ReadOnly), dlpacktest.Read(m).Flags)
	dlpack.Release(m)
	l, err := tensor.ExportLegacy()
	require.NoError(t, err, "it can be handed on in the form it came in")
	dlpack.ReleaseLegacy(l)
	tensor.Close()

	_, tensor, err = importConfig(t, dlpacktest.Config{Legacy: true, Shape: []int64{4}}, dlpack.AssumeWritable)
	require.NoError(t, err)
	defer tensor.Close()
	_, err = dlpack.Values[float32](tensor)
	assert.NoError(t, err)
}

func TestUnknownFlagsAndMinorsAreReadAndNotPassedOn(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	_, tensor, err := importConfig(t, dlpacktest.Config{Major: 1, Minor: 99, Flags: 1<<40 | uint64(dlpack.IsCopied), Shape: []int64{2}})
	require.NoError(t, err)
	defer tensor.Close()
	assert.Equal(t, dlpack.Flags(1<<40|2), tensor.Flags())
	m := must.Do(tensor.Export())(t)
	defer dlpack.Release(m)
	v := dlpacktest.Read(m)
	assert.Zero(t, v.Flags)
	assert.Equal(t, [2]uint32{1, 3}, [2]uint32{v.Major, v.Minor})
}

func TestLanesAreCarriedExactly(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	_, tensor, err := importConfig(t, dlpacktest.Config{Code: 2, Bits: 32, Lanes: 4, Shape: []int64{3}})
	require.NoError(t, err)
	defer tensor.Close()
	assert.Equal(t, int64(48), tensor.NumBytes())
	must.Fail(dlpack.Values[float32](tensor))(t, dlpack.ErrDType)
	m := must.Do(tensor.Export())(t)
	defer dlpack.Release(m)
	assert.Equal(t, uint16(4), dlpacktest.Read(m).Lanes)
}

func TestBytesThatAreNoBoolAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p, tensor, err := importConfig(t, dlpacktest.Config{Code: 6, Bits: 8, Lanes: 1, Shape: []int64{4}})
	require.NoError(t, err)
	defer tensor.Close()
	p.Data()[2] = 2
	_, err = dlpack.Values[bool](tensor)
	require.ErrorIs(t, err, dlpack.ErrValue)
	assert.ErrorContains(t, err, "byte 2 of a bool tensor is 2, but must be 0 or 1; Bitcast to uint8, then Convert to bool, turns it into true")
	p.Data()[2] = 1
	values := must.Do(dlpack.Values[bool](tensor))(t)
	assert.Equal(t, []bool{false, false, true, false}, values)
}

func TestNullStridesAreRowMajorAndNeverHandedOut(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, config := range []dlpacktest.Config{
		{Legacy: true}, {Major: 1}, {Major: 1, Minor: 1}, {Major: 1, Minor: 2}, {Major: 1, Minor: 3}, {Major: 1, Minor: 99},
	} {
		for _, shape := range [][]int64{{2, 3, 4}, {7}, {3, 0, 2}} {
			config.Shape, config.NullStrides = shape, true
			p, tensor, err := importConfig(t, config, dlpack.AssumeWritable)
			require.NoError(t, err)
			read := dlpacktest.Read
			if config.Legacy {
				read = dlpacktest.ReadLegacy
			}
			require.True(t, read(p.Managed()).NullStrides)
			want := must.Do(layout.AppendRowMajor(nil, shape))(t)
			assert.Equal(t, want, tensor.Strides())
			m := must.Do(tensor.Export())(t)
			assert.Equal(t, want, dlpacktest.Read(m).Strides)
			dlpack.Release(m)
			l := must.Do(tensor.ExportLegacy())(t)
			assert.Equal(t, want, dlpacktest.ReadLegacy(l).Strides)
			dlpack.ReleaseLegacy(l)
			tensor.Close()
		}
	}
}

func TestRankZero(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, config := range []dlpacktest.Config{
		{Shape: []int64{7}, NDim: rank(0)}, {Shape: []int64{7}, Strides: []int64{9}, NDim: rank(0)}, {NullShape: true, NullStrides: true},
	} {
		p, tensor, err := importConfig(t, config)
		require.NoError(t, err)
		p.Data()[3] = 0x40 // 2.0
		assert.Empty(t, tensor.Shape())
		assert.Empty(t, tensor.Strides())
		values := must.Do(dlpack.Values[float32](tensor))(t)
		assert.Equal(t, []float32{2}, values)
		require.NoError(t, dlpack.SetAt[float32](tensor, 3))
		value := must.Do(tensor.At())(t)
		assert.Equal(t, float32(3), value)
		for _, derive := range []func() (*dlpack.Tensor, error){
			tensor.Copy, func() (*dlpack.Tensor, error) { return tensor.Convert(dlpack.Float64) },
			func() (*dlpack.Tensor, error) { return tensor.Transpose() }, func() (*dlpack.Tensor, error) { return tensor.Reshape() },
			func() (*dlpack.Tensor, error) { return tensor.Slice() }, func() (*dlpack.Tensor, error) { return tensor.Flip() },
		} {
			d := must.Do(derive())(t)
			m := must.Do(d.Export())(t)
			d.Close()
			again := must.Do(dlpack.Import(m))(t)
			assert.Zero(t, again.Rank())
			value := must.Do(again.At())(t)
			assert.EqualValues(t, 3, value)
			again.Close()
		}
		m := must.Do(tensor.Export())(t)
		assert.Equal(t, 3.0, dlpacktest.Sum(m))
		dlpack.Release(m)
		tensor.Close()
	}
}

func TestStridesOfSizeOneDimensionsPassThrough(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	_, tensor, err := importConfig(t, dlpacktest.Config{Shape: []int64{1, 1, 2}, Strides: []int64{77, -5, 1}})
	require.NoError(t, err)
	defer tensor.Close()
	assert.True(t, tensor.IsContiguous())
	assert.Equal(t, []int64{77, -5, 1}, tensor.Strides())
	m := must.Do(tensor.Export())(t)
	defer dlpack.Release(m)
	assert.Equal(t, []int64{77, -5, 1}, dlpacktest.Read(m).Strides)
}

// Offsets and negative strides lead to the right elements. Tensors that are not row-major have no flat slice.
func TestByteOffsetIsHonoured(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p, tensor, err := importConfig(t, dlpacktest.Config{Shape: []int64{4}, Strides: []int64{-1}, ByteOffset: 12})
	require.NoError(t, err)
	defer tensor.Close()
	numbers := unsafe.Slice((*float32)(unsafe.Pointer(&p.Data()[0])), 8)
	copy(numbers, []float32{1, 2, 3, 4, 5})
	must.Fail(dlpack.Values[float32](tensor))(t, dlpack.ErrLayout)
	c := must.Do(tensor.Copy())(t)
	defer c.Close()
	values := must.Do(dlpack.Values[float32](c))(t)
	assert.Equal(t, []float32{4, 3, 2, 1}, values)
	m := must.Do(tensor.Export())(t)
	defer dlpack.Release(m)
	v := dlpacktest.Read(m)
	assert.Zero(t, v.ByteOffset)
	assert.Equal(t, uintptr(unsafe.Pointer(&p.Data()[12])), v.Data)

}

// Reads, views, copies and writes are the same for a tensor with a byte_offset and for a tensor with the offset added
// to data.
func TestFoldedAndUnfoldedOffsetsAreTheSame(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	_, folded, err := importConfig(t, dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{-3, 1}, Shift: 24})
	require.NoError(t, err)
	defer folded.Close()
	_, unfolded, err := importConfig(t, dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{-3, 1}, ByteOffset: 24})
	require.NoError(t, err)
	defer unfolded.Close()
	both := []*dlpack.Tensor{folded, unfolded}
	for i := range int64(6) {
		require.NoError(t, folded.SetAt(i+1, i/3, i%3))
		require.NoError(t, dlpack.SetAt(unfolded, float32(i+1), i/3, i%3))
	}
	for name, view := range map[string]func(x *dlpack.Tensor) (*dlpack.Tensor, error){
		"itself":     func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Slice() },
		"transposed": func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Transpose() },
		"flipped":    func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Flip() },
		"a row":      func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Index(1) },
		"columns":    func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Narrow(1, 1, 2) },
		"bytes":      func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Bitcast(dlpack.Uint8) },
		"a view": func(x *dlpack.Tensor) (*dlpack.Tensor, error) {
			return x.View(dlpack.Spec{DType: dlpack.Int16, Shape: []int64{6}, ByteOffset: -12})
		},
		"copied":    (*dlpack.Tensor).Copy,
		"converted": func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Convert(dlpack.BFloat16) },
		"contiguous": func(x *dlpack.Tensor) (*dlpack.Tensor, error) {
			c, _, err := x.Contiguous(dlpack.ColumnMajor)
			return c, err
		},
		"handed over": func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return dlpack.Import(export(t, x)) },
	} {
		var read [2][]byte
		for k, x := range both {
			v, err := view(x)
			require.NoError(t, err, name)
			read[k], err = v.AppendBytes(nil)
			require.NoError(t, err, name)
			assert.NotEmpty(t, read[k], name)
			m := export(t, v)
			assert.Zero(t, dlpacktest.Read(m).ByteOffset, name)
			assert.Equal(t, v.Data(), dlpacktest.Read(m).Data, name)
			dlpack.Release(m)
			v.Close()
		}
		assert.Equal(t, read[0], read[1], name)
	}
	for k, x := range both {
		value := must.Do(x.At(1, 0))(t)
		assert.Equal(t, float32(4), value)
		require.NoError(t, both[1-k].CopyTo(x))
		bytes, at, err := x.UnsafeBytes()
		require.NoError(t, err)
		assert.Len(t, bytes, 24)
		assert.Equal(t, int64(12), int64(at))
		assert.Equal(t, 8, x.Alignment())
	}
}

func TestDeviceMemoryIsCarriedAndNotTouched(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, device := range []int32{2, 8, 13, 99} {
		p, tensor, err := importConfig(t, dlpacktest.Config{DeviceType: device, DeviceID: 7, Shape: []int64{4}, ByteOffset: 64})
		require.NoError(t, err)
		must.Fail(dlpack.Values[float32](tensor))(t, dlpack.ErrDevice)
		_, _, err = tensor.UnsafeBytes()
		assert.ErrorIs(t, err, dlpack.ErrDevice)
		must.Fail(tensor.Copy())(t, dlpack.ErrDevice)
		must.Fail(tensor.AppendBytes(nil))(t, dlpack.ErrDevice)
		m := must.Do(tensor.Export())(t)
		v := dlpacktest.Read(m)
		assert.Equal(t, uintptr(unsafe.Pointer(&p.Data()[0])), v.Data)
		assert.Equal(t, uint64(64), v.ByteOffset, "kept for devices whose data may be a handle")
		assert.Equal(t, [2]int32{device, 7}, [2]int32{v.DeviceType, v.DeviceID})
		tensor.Close()
		dlpack.Release(m)
		assert.Equal(t, 1, p.Deletes())
	}
}

func TestClosedTensorsAnswerErrClosed(t *testing.T) {
	_, tensor, err := importConfig(t, dlpacktest.Config{Shape: []int64{4}})
	require.NoError(t, err)
	require.NoError(t, tensor.Close())
	must.Fail(tensor.Export())(t, dlpack.ErrClosed)
	must.Fail(tensor.ExportLegacy())(t, dlpack.ErrClosed)
	must.Fail(tensor.ExportCopy())(t, dlpack.ErrClosed)
	must.Fail(tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{1}}))(t, dlpack.ErrClosed)
	must.Fail(tensor.AsBytes())(t, dlpack.ErrClosed)
	must.Fail(tensor.Copy())(t, dlpack.ErrClosed)
	_, _, err = tensor.Align(64)
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	_, _, err = tensor.UnsafeBytes()
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	must.Fail(tensor.AppendBytes(nil))(t, dlpack.ErrClosed)
	must.Fail(dlpack.Values[float32](tensor))(t, dlpack.ErrClosed)
	_, err = dlpack.Values[int8](tensor)
	assert.ErrorIs(t, err, dlpack.ErrClosed, "whatever else there is to say")
	assert.Contains(t, tensor.String(), "closed")

	_, tensor, err = importConfig(t, dlpacktest.Config{DeviceType: 2, Flags: uint64(dlpack.ReadOnly), Shape: []int64{4}})
	require.NoError(t, err)
	require.NoError(t, tensor.Close())
	must.Fail(tensor.ExportLegacy())(t, dlpack.ErrClosed)
	must.Fail(tensor.Copy())(t, dlpack.ErrClosed)
	must.Fail(tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{1}}))(t, dlpack.ErrClosed)
	_, _, err = tensor.UnsafeBytes()
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	must.Fail(tensor.AppendBytes(nil))(t, dlpack.ErrClosed)
	must.Fail(dlpack.Values[float32](tensor))(t, dlpack.ErrClosed)
}

func TestBorrowedTensorIsNotExported(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	tensor := must.Do(dlpack.Borrow(p.DLTensor(false), dlpack.AssumeWritable))(t)
	values := must.Do(dlpack.Values[float32](tensor))(t)
	values[3] = 5
	_, err := tensor.Export()
	assert.ErrorIs(t, err, dlpack.ErrBorrowed)
	m := must.Do(tensor.ExportCopy())(t)
	assert.Equal(t, 5.0, dlpacktest.Sum(m))
	dlpack.Release(m)
	require.NoError(t, tensor.Close())
	assert.Zero(t, p.Deletes())
}

// The cleanup guard releases forgotten memory, but not if a slice of it may still be in use.
func TestForgottenImportIsReleasedUnlessASliceIsOut(t *testing.T) {
	repotest.Forgets(t)
	forgotten := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	sliced := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	var values []float32
	before := dlpack.ReadStats()
	func() {
		must.Do(dlpack.Import(forgotten.Managed()))(t)
		tensor := must.Do(dlpack.Import(sliced.Managed()))(t)
		values = must.Do(dlpack.Values[float32](tensor))(t)
	}()
	collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten >= before.Forgotten+2 })
	assert.Equal(t, before.Forgotten+2, dlpack.ReadStats().Forgotten)
	assert.Equal(t, 1, forgotten.Deletes())
	assert.Zero(t, sliced.Deletes())
	values[0] = 1
	dlpack.Release(sliced.Managed()) // the call that the program forgot
	dlpack.Settle(1)
}

// Functions that read elements only while they run leave no slice behind.
func TestForgottenImportIsReleasedAfterItsElementsWereRead(t *testing.T) {
	repotest.Forgets(t)
	reads := map[string]func(x *dlpack.Tensor) error{
		"Use":  func(x *dlpack.Tensor) error { return dlpack.Use(x, func(v []float32) error { v[0]++; return nil }) },
		"Read": func(x *dlpack.Tensor) error { return dlpack.Read(x, func(v []float32) error { return nil }) },
		"UseStrided": func(x *dlpack.Tensor) error {
			return dlpack.UseStrided(x, func(v dlpack.Strided[float32]) error { v.Data[0]++; return nil })
		},
		"SetAt":       func(x *dlpack.Tensor) error { return dlpack.SetAt(x, float32(1), 0) },
		"AppendBytes": func(x *dlpack.Tensor) error { _, err := x.AppendBytes(nil); return err },
		"Format":      func(x *dlpack.Tensor) error { _ = fmt.Sprintf("%v %+v", x, x); return nil },
		"CopyTo": func(x *dlpack.Tensor) error {
			y := must.Do(dlpack.New(dlpack.Float32, 4))(t)
			defer y.Close()
			return errors.Join(x.CopyTo(y), y.CopyTo(x))
		},
		"views": func(x *dlpack.Tensor) error {
			y := must.Do(x.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}}))(t)
			return dlpack.Use(y, func(v []float32) error { v[0]++; return nil })
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			forgotten := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
			before := dlpack.ReadStats().Forgotten
			func() {
				x := must.Do(dlpack.Import(forgotten.Managed()))(t)
				require.NoError(t, read(x))
			}()
			collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten > before })
			assert.Equal(t, before+1, dlpack.ReadStats().Forgotten)
			assert.Equal(t, 1, forgotten.Deletes())
		})
	}
}

// The slice of Use is valid until Use returns, even if nothing refers to the tensor any more.
func TestNothingIsReleasedWhileUseRuns(t *testing.T) {
	repotest.Forgets(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	before := dlpack.ReadStats().Forgotten
	func() {
		x := must.Do(dlpack.Import(p.Managed()))(t)
		require.NoError(t, dlpack.Use(x, func(v []float32) error {
			x = nil
			for range 5 {
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			assert.Zero(t, p.Deletes())
			v[0] = 1
			return nil
		}))
	}()
	collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten > before })
	assert.Equal(t, 1, p.Deletes())
}

// Large imports that are closed in time cause almost no garbage collections.
func TestClosedImportsAreNotCollected(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{25 << 20}, Bytes: 16, NullDeleter: true})
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		tensor := must.Do(dlpack.Import(p.Managed()))(t)
		time.Sleep(100 * time.Microsecond)
		require.NoError(t, tensor.Close())
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.NumGC-before.NumGC, uint32(10)) // earlier work may have caused some
}

// Forgotten imports cause garbage collections, although the collector does not see their bytes.
func TestForeignBytesAreAccountedFor(t *testing.T) {
	repotest.Forgets(t)
	const size = 16 << 20
	before := dlpack.ReadStats().Forgotten
	for range 40 {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{size / 4}, Bytes: 16, NullDeleter: true})
		must.Do(dlpack.Import(p.Managed()))(t)
	}
	for deadline := time.Now().Add(30 * time.Second); dlpack.ReadStats().Forgotten == before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	assert.Greater(t, dlpack.ReadStats().Forgotten, before, "nobody called the collector")
	collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten >= before+40 })
	assert.Equal(t, before+40, dlpack.ReadStats().Forgotten)

	// Only some of many forgotten imports are alive at the same time. The producer slows down when much memory is alive,
	// so that the collector can keep up.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dlpack.SettleForeignBytes()
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{1 << 18}, Bytes: 16, NullDeleter: true})
	most := int64(0)
	for range 2000 {
		must.Do(dlpack.Import(p.Managed()))(t)
		now := dlpack.ReadStats().ForeignBytes
		most = max(most, now)
		if time.Sleep(50 * time.Microsecond); now > 500<<20 { // about the time in which a producer fills the memory
			time.Sleep(time.Millisecond)
		}
	}
	assert.Less(t, most, int64(1500<<20), "of 2000 MiB")
	collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten >= before+2040 })
	assert.Equal(t, before+2040, dlpack.ReadStats().Forgotten)
}

// Descriptions may claim more memory than exists. The sum of foreign bytes must not overflow, and must not become so
// large that no garbage collection starts.
func TestForeignBytesOfOneMemoryAreBounded(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	before := dlpack.ReadStats().ForeignBytes
	var tensors []*dlpack.Tensor
	for range 3 {
		p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: 2, Shape: []int64{2}, Strides: []int64{1 << 60}})
		x := must.Do(dlpack.Import(p.Managed()))(t)
		loan := dlpacktest.Lend(t, 1)
		y := must.Do(dlpack.Lend(loan.Data(), 1<<62, false, loan.Release(), loan.Context()))(t)
		tensors = append(tensors, x, y)
		assert.EqualValues(t, len(tensors)<<30, dlpack.ReadStats().ForeignBytes-before)
	}
	for _, x := range tensors {
		require.NoError(t, x.Close())
	}
	assert.Equal(t, before, dlpack.ReadStats().ForeignBytes)
}
