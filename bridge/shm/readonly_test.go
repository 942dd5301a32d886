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
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// mapped returns a tensor on a file of 16384 bytes that is mapped.
func mapped(t testing.TB, flags int) *dlpack.Tensor {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, make([]byte, 16384), 0o600))
	file := must.Do(os.OpenFile(name, os.O_RDWR, 0))(t)
	defer file.Close()
	data := must.Do(syscall.Mmap(int(file.Fd()), 0, 16384, syscall.PROT_READ|syscall.PROT_WRITE, flags))(t)
	x := must.Do(dlpack.Lend(unsafe.Pointer(&data[0]), 16384, false, nil, nil))(t)
	t.Cleanup(func() {
		x.Close()
		syscall.Munmap(data)
	})
	return x
}

// permissions returns the permissions of the mapping at an address, from /proc/self/maps.
func permissions(t *testing.T, address uintptr) string {
	maps := must.Do(os.ReadFile("/proc/self/maps"))(t)
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

// The owner may reuse the memory as soon as it is released.
func TestTheSecondMappingKeepsTheMemory(t *testing.T) {
	leavesNothing(t)
	before := shm.Mappings()
	x := must.Do(shm.New(dlpack.Uint8, 10))(t)
	r := must.Do(shm.ReadOnly(x))(t)
	x.Close()
	assert.Equal(t, before+2, shm.Mappings())
	r.Close()
	assert.Equal(t, before, shm.Mappings())
	must.Fail(shm.ReadOnly(mapped(t, syscall.MAP_PRIVATE)))(t, shm.ErrNotShared)
}

func TestReadOnlyIsASecondMapping(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 40, 100)
	part := must.Do(x.Narrow(0, 13, 20))(t)
	defer part.Close()
	turned := must.Do(part.Transpose())(t)
	defer turned.Close()
	back := must.Do(turned.Flip(0))(t)
	defer back.Close()
	file := mapped(t, syscall.MAP_SHARED)
	middle := must.Do(file.Narrow(0, 5000, 9000))(t)
	defer middle.Close()
	for i, y := range []*dlpack.Tensor{x, part, turned, back, file, middle} {
		r := must.Do(shm.ReadOnly(y))(t)
		assert.True(t, r.ReadOnly())
		assert.Equal(t, "r--s", permissions(t, r.Data()))
		assert.Equal(t, "rw-s", permissions(t, y.Data()))
		assert.Equal(t, y.Strides(), r.Strides())
		require.NoError(t, y.Fill(i+1))
		assert.True(t, must.Do(dlpack.Equal(y, r))(t), "%v instead of %v", r, y)
		again := must.Do(shm.ReadOnly(r))(t)
		assert.Equal(t, i < 4, shm.IsShared(r))
		again.Close()
		r.Close()
	}
}

func TestReadOnlyOutlivesItsTensor(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 4)
	r := must.Do(shm.ReadOnly(x))(t)
	defer r.Close()
	require.NoError(t, x.SetAt(float32(9), 3))
	x.Close()
	assert.Contains(t, text(r), "[0 1 2 9]")
	must.Fail(shm.ReadOnly(x))(t, dlpack.ErrClosed)
	empty := must.Do(shm.New(dlpack.Int16, 0, 3))(t)
	defer empty.Close()
	none := must.Do(shm.ReadOnly(empty))(t)
	assert.True(t, none.ReadOnly())
	none.Close()
}

func TestReadOnlyRefusesPrivateMemory(t *testing.T) {
	leavesNothing(t)
	c := must.Do(dlpack.New(dlpack.Float32, 1000))(t)
	defer c.Close()
	g := must.Do(dlpack.FromSlice(make([]float32, 5000)))(t)
	defer g.Close()
	for _, x := range []*dlpack.Tensor{c, g, mapped(t, syscall.MAP_PRIVATE)} {
		_, err := shm.ReadOnly(x)
		require.ErrorIs(t, err, shm.ErrNotShared)
		assert.ErrorContains(t, err, "; shm.Copy makes a copy that is")
	}
}

func init() {
	// writes to its own read-only tensor, in spite of its flag
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

func TestWritingToTheSecondMappingFaults(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 8)
	cmd, conn := child(t, "fault at home")
	require.NoError(t, shm.Send(t.Context(), conn, []*dlpack.Tensor{x}, shm.Writable()))
	require.Error(t, cmd.Wait())
	v := must.Do(x.At(0))(t)
	assert.Equal(t, float32(0), v)
}

// BenchmarkReadOnly makes a second mapping of 64 MiB, and reads one byte of each page through it and through the first.
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
