//go:build linux && cgo

package shm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
)

// mapped returns a tensor on a file of 16384 bytes that is mapped.
func mapped(t testing.TB, flags int) *dlpack.Tensor {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, make([]byte, 16384), 0o600))
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	data, err := syscall.Mmap(int(file.Fd()), 0, 16384, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	require.NoError(t, err)
	x, err := dlpack.Lend(unsafe.Pointer(&data[0]), 16384, false, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		x.Close()
		syscall.Munmap(data)
	})
	return x
}

// permissions returns those of the mapping that an address lies in, as /proc/self/maps has them.
func permissions(t *testing.T, address uintptr) string {
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		var begin, end uintptr
		var text string
		fmt.Sscanf(line, "%x-%x %s", &begin, &end, &text)
		if begin <= address && address < end {
			return text
		}
	}
	return "none"
}

// The owner may use the memory for something else as soon as it is given up.
func TestTheSecondMappingKeepsTheMemory(t *testing.T) {
	leavesNothing(t)
	before := shm.Mappings()
	x, err := shm.New(dlpack.Uint8, 10)
	require.NoError(t, err)
	r, err := shm.ReadOnly(x)
	require.NoError(t, err)
	x.Close()
	assert.Equal(t, before+2, shm.Mappings())
	r.Close()
	assert.Equal(t, before, shm.Mappings())
	_, err = shm.ReadOnly(mapped(t, syscall.MAP_PRIVATE))
	require.ErrorIs(t, err, shm.ErrNotShared)
}

func TestG88ReadOnlyIsASecondMapping(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 40, 100)
	part, err := x.Narrow(0, 13, 20)
	require.NoError(t, err)
	defer part.Close()
	turned, err := part.Transpose()
	require.NoError(t, err)
	defer turned.Close()
	back, err := turned.Flip(0)
	require.NoError(t, err)
	defer back.Close()
	file := mapped(t, syscall.MAP_SHARED)
	middle, err := file.Narrow(0, 5000, 9000)
	require.NoError(t, err)
	defer middle.Close()
	for i, y := range []*dlpack.Tensor{x, part, turned, back, file, middle} {
		r, err := shm.ReadOnly(y)
		require.NoError(t, err)
		assert.True(t, r.ReadOnly())
		assert.Equal(t, "r--s", permissions(t, r.Data()))
		assert.Equal(t, "rw-s", permissions(t, y.Data()))
		assert.Equal(t, y.Strides(), r.Strides())
		require.NoError(t, y.Fill(i+1))
		a, err := y.AppendBytes(nil)
		require.NoError(t, err)
		b, err := r.AppendBytes(nil)
		require.NoError(t, err)
		assert.Equal(t, a, b)
		again, err := shm.ReadOnly(r)
		require.NoError(t, err)
		assert.Equal(t, i < 4, shm.IsShared(r))
		again.Close()
		r.Close()
	}
}

func TestReadOnlyOutlivesItsTensor(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 4)
	r, err := shm.ReadOnly(x)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, x.SetAt(float32(9), 3))
	x.Close()
	assert.Contains(t, text(r), "[0 1 2 9]")
	_, err = shm.ReadOnly(x)
	require.ErrorIs(t, err, dlpack.ErrClosed)
	empty, err := shm.New(dlpack.Int16, 0, 3)
	require.NoError(t, err)
	defer empty.Close()
	none, err := shm.ReadOnly(empty)
	require.NoError(t, err)
	assert.True(t, none.ReadOnly())
	none.Close()
}

func TestReadOnlyRefusesPrivateMemory(t *testing.T) {
	leavesNothing(t)
	c, err := dlpack.New(dlpack.Float32, 1000)
	require.NoError(t, err)
	defer c.Close()
	g, err := dlpack.FromSlice(make([]float32, 5000))
	require.NoError(t, err)
	defer g.Close()
	for _, x := range []*dlpack.Tensor{c, g, mapped(t, syscall.MAP_PRIVATE)} {
		_, err := shm.ReadOnly(x)
		require.ErrorIs(t, err, shm.ErrNotShared)
		assert.ErrorContains(t, err, "a copy made by shm is")
	}
}

func init() {
	// writes to a read-only tensor of its own, in spite of its flag
	roles["fault at home"] = func() error {
		conn := connection(failure{}, 3)
		ts, err := shm.Recv(context.Background(), conn)
		if err != nil {
			return err
		}
		r, err := shm.ReadOnly(ts[0])
		if err != nil {
			return err
		}
		data, start, err := r.UnsafeBytes()
		if err != nil {
			return err
		}
		data[start] = 1
		return nil
	}
}

func TestG88WritingToTheSecondMappingFaults(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 8)
	cmd, conn := child(t, "fault at home")
	require.NoError(t, shm.Send(t.Context(), conn, []*dlpack.Tensor{x}, shm.Writable()))
	require.Error(t, cmd.Wait())
	v, err := x.At(0)
	require.NoError(t, err)
	assert.Equal(t, float32(0), v)
}

// A second mapping of 64 MiB, and reading one byte of each page by it and by the first.
func BenchmarkReadOnly(b *testing.B) {
	x, err := shm.New(dlpack.Uint8, 64<<20)
	require.NoError(b, err)
	defer x.Close()
	require.NoError(b, x.Fill(uint8(7)))
	touch := func(x *dlpack.Tensor) {
		data, _, err := x.UnsafeBytes()
		require.NoError(b, err)
		sum := 0
		for i := 0; i < len(data); i += 4096 {
			sum += int(data[i])
		}
		require.Equal(b, 7*len(data)/4096, sum)
	}
	b.Run("map", func(b *testing.B) {
		for b.Loop() {
			r, err := shm.ReadOnly(x)
			require.NoError(b, err)
			r.Close()
		}
	})
	b.Run("map and read", func(b *testing.B) {
		for b.Loop() {
			r, err := shm.ReadOnly(x)
			require.NoError(b, err)
			touch(r)
			r.Close()
		}
	})
	b.Run("read the first", func(b *testing.B) {
		for b.Loop() {
			touch(x)
		}
	})
}
