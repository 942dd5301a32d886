//go:build cgo

package formats_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// If Go tried to allocate this much, the process would end before the error for elements that cannot be read.
func TestElementsThatNoMemoryHasRoomForAreNotWritten(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	const size = 1<<47 - 1<<30 // more than this machine can allocate, though it could be addressed
	one := must.Do(dlpack.FromSlice([]uint8{1}))(t)
	defer one.Close()
	wide := must.Do(one.BroadcastTo(size))(t)
	defer wide.Close()
	closed := must.Do(one.BroadcastTo(size))(t)
	closed.Close()
	p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: int32(dlpack.CUDA), Shape: []int64{size}, Code: uint8(dlpack.CodeUInt), Bits: 8, Lanes: 1})
	device := must.Do(dlpack.Import(p.Managed()))(t)
	defer device.Close()

	// Ranges of a third of the address space are mapped until there is no room for another. Their addresses depend on
	// the address of Go's heap, which is random.
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
	once := must.Do(dlpack.FromSlice(third))(t)
	defer once.Close()

	small := must.Do(dlpack.FromSlice([]uint8{1, 2, 3}))(t)
	defer small.Close()
	before := []byte{1, 2}
	for _, f := range formats.All {
		if f.Payloads == nil { // a message consists of parts, which are not copied
			continue
		}
		tooLarge := dlpack.ErrMemory
		if f.TooLarge != nil {
			tooLarge = f.TooLarge
		}
		refused := func(t *testing.T, out []byte, err error, want ...error) {
			assert.True(t, slices.ContainsFunc(want, func(one error) bool { return errors.Is(err, one) }), "%v", err)
			assert.ErrorContains(t, err, f.Name()+": ")
			assert.Equal(t, before, out)
		}
		for _, w := range f.Writers {
			name := f.Name() + "." + w.Name
			for what, huge := range map[string]*dlpack.Tensor{"memory too large to allocate twice": once, "a byte that is seen often": wide} {
				t.Run(name+" of "+what, func(t *testing.T) {
					out, err := w.Append(before, huge)
					refused(t, out, err, tooLarge)
				})
			}
			// A format may first refuse a tensor that is too large for any message.
			t.Run(name+" of memory of a device", func(t *testing.T) {
				out, err := w.Append(before, device)
				refused(t, out, err, dlpack.ErrDevice, cmp.Or(f.TooLarge, dlpack.ErrDevice))
			})
			t.Run(name+" of a closed tensor", func(t *testing.T) {
				out, err := w.Append(before, closed)
				refused(t, out, err, dlpack.ErrClosed, cmp.Or(f.TooLarge, dlpack.ErrClosed))
			})
			t.Run(name+" behind memory too large to allocate twice", func(t *testing.T) { refuseBehind(t, third, small, w.Append) })
		}
		for _, payload := range f.Payloads {
			t.Run(f.Name()+"."+payload.Name, func(t *testing.T) {
				out, err := payload.Append(before, third)
				assert.ErrorIs(t, err, tooLarge)
				assert.Equal(t, before, out)
			})
		}
	}
	t.Run("dlpack.Tensor.AppendBytes behind memory too large to allocate twice", func(t *testing.T) {
		refuseBehind(t, third, small, func(dst []byte, x *dlpack.Tensor) ([]byte, error) { return x.AppendBytes(dst) })
	})
}

func refuseBehind(t *testing.T, huge []byte, x *dlpack.Tensor, write func(dst []byte, x *dlpack.Tensor) ([]byte, error)) {
	out, err := write(huge, x)
	assert.ErrorIs(t, err, dlpack.ErrMemory)
	assert.True(t, len(out) == len(huge) && &out[0] == &huge[0])
}

// A use is a call of a function with a tensor. A function that does not append returns dst.
type use struct {
	name string
	with func(dst []byte, x *dlpack.Tensor) ([]byte, error)
}

// uses returns the calls of all functions of a format that take a tensor.
func uses(t testing.TB, f *formats.Format) (all []use) {
	for _, w := range f.Writers {
		all = append(all, use{w.Name, w.Append}, use{strings.Replace(w.Name, "Append", "Size", 1), func(dst []byte, x *dlpack.Tensor) ([]byte, error) {
			_, err := w.Size(x)
			return dst, err
		}})
	}
	for _, r := range f.Readers {
		all = append(all, use{r.Name, func(dst []byte, x *dlpack.Tensor) ([]byte, error) {
			_, err := r.Read(x, 0)
			return dst, err
		}})
	}
	for _, o := range f.Others {
		all = append(all, use{o.Name, func(dst []byte, x *dlpack.Tensor) ([]byte, error) { return dst, o.Use(t, x) }})
	}
	return all
}

// For a nil tensor, the zero Tensor and a closed tensor the error is ErrClosed, and nothing is appended.
func TestTensorsThatAreNotOpenAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	closed := must.Do(dlpack.FromSlice([]uint8{1}))(t)
	require.NoError(t, closed.Close())
	before := []byte{1, 2}
	for name, tensor := range map[string]*dlpack.Tensor{"nil": nil, "zero": new(dlpack.Tensor), "closed": closed} {
		for _, f := range formats.All {
			for _, use := range uses(t, f) {
				t.Run(f.Name()+"."+use.name+" of "+name, func(t *testing.T) {
					var out []byte
					var err error
					require.NotPanics(t, func() { out, err = use.with(before, tensor) })
					assert.Equal(t, before, out)
					require.ErrorIs(t, err, dlpack.ErrClosed)
					assert.ErrorContains(t, err, "the tensor is ")
					assert.ErrorContains(t, err, name)
				})
			}
		}
	}
}

func TestNilOptionsChangeNothing(t *testing.T) {
	tensor := must.Do(dlpack.FromSlice([]uint8{1, 2, 3}))(t)
	defer tensor.Close()
	for _, f := range formats.All {
		t.Run(f.Name(), func(t *testing.T) {
			want := must.Do(f.Encode(formats.Named{Tensor: tensor}))(t)
			got := must.Do(f.Writers[0].Append(nil, tensor))(t)
			assert.Equal(t, want, got)
			values := must.Do(f.Decode(got))(t)
			require.Len(t, values, 1)
			assert.NoError(t, values[0].Tensor.Close())
		})
	}
}

func TestNilArgumentsAreErrors(t *testing.T) {
	for _, f := range formats.All {
		for _, use := range f.Nils {
			t.Run(f.Name()+"."+use.Name, func(t *testing.T) {
				var err error
				require.NotPanics(t, func() { err = use.Use() })
				if use.Want == nil {
					require.NoError(t, err)
					return
				}
				assert.ErrorIs(t, err, use.Want)
				assert.ErrorContains(t, err, "nil")
			})
		}
	}
}
