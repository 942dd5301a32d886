//go:build cgo

package dlpack_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// configOf decodes a description from bytes: type, device, flags, offset, rank, then shape and strides.
func configOf(data []byte) dlpacktest.Config {
	next := func(n int) uint64 {
		var b [8]byte
		data = data[copy(b[:n], data):]
		return binary.LittleEndian.Uint64(b[:])
	}
	c := dlpacktest.Config{Bytes: 512}
	c.Legacy = next(1)&1 == 1
	c.Code, c.Bits, c.Lanes = uint8(next(1)), uint8(next(1)), uint16(next(2))
	c.DeviceType, c.DeviceID = int32(int8(next(1))), int32(next(1))
	if !c.Legacy {
		c.Flags = next(2)
	}
	c.ByteOffset = next(8)
	n := int32(int8(next(1)))
	c.NDim = &n
	null := next(1)
	c.NullData, c.NullShape, c.NullStrides = null&1 != 0, null&2 != 0, null&4 != 0
	c.Strides = []int64{}
	for range max(n, 0) {
		c.Shape = append(c.Shape, int64(next(8)))
		c.Strides = append(c.Strides, int64(next(8)))
	}
	return c
}

func bytesOf(c dlpacktest.Config) (data []byte) {
	flag := func(on bool, bit byte) byte {
		if on {
			return bit
		}
		return 0
	}
	data = append(data, flag(c.Legacy, 1), c.Code, c.Bits)
	data = binary.LittleEndian.AppendUint16(data, c.Lanes)
	data = append(data, byte(c.DeviceType), byte(c.DeviceID))
	if !c.Legacy {
		data = binary.LittleEndian.AppendUint16(data, uint16(c.Flags))
	}
	data = binary.LittleEndian.AppendUint64(data, c.ByteOffset)
	n := byte(len(c.Shape))
	if c.NDim != nil {
		n = byte(*c.NDim)
	}
	data = append(data, n, flag(c.NullData, 1)|flag(c.NullShape, 2)|flag(c.Strides == nil, 4))
	for d, size := range c.Shape {
		data = binary.LittleEndian.AppendUint64(data, uint64(size))
		stride := int64(0)
		if d < len(c.Strides) {
			stride = c.Strides[d]
		}
		data = binary.LittleEndian.AppendUint64(data, uint64(stride))
	}
	return data
}

// FuzzImport imports any description. Import must refuse it and leave it to its owner, or the description must pass
// through import, view and export unchanged and be released once. The validators of Go and C must agree. Elements inside
// the producer's memory can be read without access to other memory.
func FuzzImport(f *testing.F) {
	for _, test := range hostile {
		f.Add(bytesOf(test.config))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := configOf(data)
		p := dlpacktest.Produce(t, c)
		flags := dlpack.Flags(c.Flags)
		inC, inGo := dlpack.CheckTensorInC(p.DLTensor(c.Legacy), flags), dlpack.CheckTensorInGo(p.DLTensor(c.Legacy), flags)
		require.Equal(t, inC, inGo)
		take := dlpack.Import
		if c.Legacy {
			take = dlpack.ImportLegacy
		}
		tensor, err := take(p.Managed(), dlpack.WithoutGuard)
		if err != nil {
			require.ErrorIs(t, err, inGo.Status)
			require.Zero(t, p.Deletes())
			return
		}
		require.NoError(t, inGo.Status)
		count, low, high := inGo.Extent[0], inGo.Extent[2], inGo.Extent[3]
		assert.Equal(t, count, tensor.NumElements())

		m := must.Do(tensor.Export())(t)
		v := dlpacktest.Read(m)
		assert.Equal(t, tensor.Shape(), append([]int64{}, v.Shape...))
		assert.Equal(t, tensor.Strides(), append([]int64{}, v.Strides...))
		assert.Equal(t, tensor.Data(), v.Data)
		dlpack.Release(m)

		start := int64(c.ByteOffset)
		if tensor.Device().HostReadable() && c.ByteOffset < 512 && start+low >= 0 && start+high <= 512 {
			if tensor.NumBytes() <= 1<<16 { // a broadcast of a few bytes can be larger than all memory
				copied := must.Do(tensor.Copy())(t)
				assert.Equal(t, tensor.NumBytes(), copied.NumBytes())
				copied.Close()
			}
			bytes, at, err := tensor.UnsafeBytes()
			require.NoError(t, err)
			assert.Equal(t, high-low, int64(len(bytes)))
			assert.Equal(t, -low, at)
		}
		tensor.Close()
		assert.Equal(t, 1, p.Deletes())
	})
}
