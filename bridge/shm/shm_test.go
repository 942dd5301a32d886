//go:build linux && cgo

package shm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("SHM_TEST_ROLE"); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dlpacktest.Main(m)
}

// leavesNothing checks at the end of the test that no mapping and no descriptor has leaked.
func leavesNothing(t *testing.T) {
	before := descriptors(t)
	t.Cleanup(func() {
		assert.Zero(t, shm.Mappings())
		assert.Eventually(t, func() bool { return descriptors(t) <= before }, 10*time.Second, time.Millisecond,
			"descriptors") // goroutines may still close some, even of the test before
	})
}

func TestTheLedgerNamesWhoHasMadeATensorOrACopy(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer dlpack.SetLedger(dlpack.SetLedger(true))
	x := must.Own(shm.New(dlpack.Float32, 4))(t)
	must.Own(shm.Copy(x))(t)
	live := dlpack.Live()
	require.Len(t, live, 2)
	for _, record := range live {
		assert.Equal(t, "shm_test.go", filepath.Base(record.Caller().File), "%v", record)
	}
}

// pair returns the two ends of a connection, which end with the test.
func pair(t *testing.T) (a, b *net.UnixConn) {
	a, b = ends(t)
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b
}

func ends(t require.TestingT) (a, b *net.UnixConn) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	return connection(t, fds[0]), connection(t, fds[1])
}

func connection(t require.TestingT, fd int) *net.UnixConn {
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	conn, err := net.FileConn(file)
	require.NoError(t, err)
	return conn.(*net.UnixConn)
}

// descriptors returns the number of open files of this process, without Go's own and without the one that is used to
// ask the kernel for mappings.
func descriptors(t *testing.T) int {
	found := must.Do(filepath.Glob("/proc/self/fd/*"))(t)
	count := 0
	for _, name := range found {
		if link, err := os.Readlink(name); err == nil && !strings.HasPrefix(link, "anon_inode:") && !strings.HasSuffix(link, "/maps") {
			count++
		}
	}
	return count
}

func numbers(t *testing.T, shape ...int64) *dlpack.Tensor {
	x := must.Do(shm.New(dlpack.Float32, shape...))(t)
	t.Cleanup(func() { x.Close() })
	require.NoError(t, dlpack.Use(x, func(values []float32) error {
		for i := range values {
			values[i] = float32(i)
		}
		return nil
	}))
	return x
}

func exchange(t *testing.T, ts []*dlpack.Tensor, options ...shm.SendOption) []*dlpack.Tensor {
	a, b := pair(t)
	require.NoError(t, shm.Send(t.Context(), a, ts, append(options, nil)...)) // a nil option changes nothing
	got := must.Do(shm.Recv(t.Context(), b, nil))(t)
	for _, x := range got {
		t.Cleanup(func() { x.Close() })
	}
	return got
}

func text(x *dlpack.Tensor) string { return fmt.Sprintf("%v", x) }

func TestReceivedTensorsAreTheSameMemory(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 3, 4)
	got := exchange(t, []*dlpack.Tensor{x})
	require.Len(t, got, 1)
	assert.True(t, got[0].ReadOnly())
	assert.NotEqual(t, x.Data(), got[0].Data())
	assert.Equal(t, []int64{3, 4}, got[0].Shape())
	require.NoError(t, x.SetAt(float32(99), 1, 2))
	v := must.Do(got[0].At(1, 2))(t)
	assert.Equal(t, float32(99), v)
}

func TestViewsOfOneSegmentAreOneMapping(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 4, 6)
	views := []*dlpack.Tensor{x}
	for _, make := range []func() (*dlpack.Tensor, error){
		func() (*dlpack.Tensor, error) { return x.Transpose() },
		func() (*dlpack.Tensor, error) { return x.Flip(1) },
		func() (*dlpack.Tensor, error) { return x.Narrow(0, 1, 2) },
		func() (*dlpack.Tensor, error) { return x.Index(2, 3) },
	} {
		v := must.Do(make())(t)
		defer v.Close()
		views = append(views, v)
	}
	empty := must.Do(shm.New(dlpack.Int8, 3, 0))(t)
	defer empty.Close()
	views = append(views, empty)
	before := shm.Mappings()
	got := exchange(t, views)
	assert.Equal(t, before+1, shm.Mappings())
	for i, v := range views {
		assert.Equal(t, v.Strides(), got[i].Strides())
		assert.True(t, must.Do(dlpack.Equal(v, got[i]))(t), "tensor %d: %v instead of %v", i, got[i], v)
	}
}

// A process has few mappings, however many parts of a segment it fetches.
func TestPartsOfOneSegmentShareItsMappings(t *testing.T) {
	const rows, columns = 16, 2048 // a row is two pages
	offering(t)
	for _, options := range [][]shm.SendOption{nil, {shm.Writable()}} {
		x := numbers(t, rows, columns)
		before := shm.Mappings()
		var held []*dlpack.Tensor
		for i := range int64(rows) {
			row := must.Do(x.Narrow(0, i, 1))(t)
			held = append(held, row)
			h := must.Do(shm.Offer(row, time.Minute, options...))(t)
			got := must.Do(shm.Fetch(t.Context(), h, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{columns}}))(t)
			only := must.Do(shm.ReadOnly(row))(t)
			held = append(held, got, only)
			for _, y := range []*dlpack.Tensor{got, only} {
				v := must.Do(y.Reshape(columns))(t)
				held = append(held, v)
				last := must.Do(v.At(columns - 1))(t)
				require.Equal(t, float32((i+1)*columns-1), last)
			}
			require.Equal(t, len(options) == 0, got.ReadOnly())
			require.True(t, only.ReadOnly())
		}
		assert.LessOrEqual(t, shm.Mappings(), before+2)
		for _, y := range held {
			y.Close()
		}
		assert.Equal(t, before, shm.Mappings())
		x.Close()
	}
}

// A sparse file takes no memory. The files of other processes must not fill the address space.
func TestSegmentsOfOthersTakeAtMostAQuarterOfTheAddressSpace(t *testing.T) {
	leavesNothing(t)
	const size = 12 << 40
	receive := func() ([]*dlpack.Tensor, error) {
		a, b := pair(t)
		file := sealedFile(t, 0, size)
		defer syscall.Close(file)
		_, _, err := a.WriteMsgUnix(message(set(44, size/4, 8)), syscall.UnixRights(file), nil)
		require.NoError(t, err)
		return shm.Recv(t.Context(), b)
	}
	var held []*dlpack.Tensor
	for range 2 {
		got := must.Do(receive())(t)
		held = append(held, got...)
	}
	_, err := receive()
	require.ErrorIs(t, err, dlpack.ErrMemory)
	require.ErrorContains(t, err, "the segments of other processes would take more than a quarter of the address space")
	held[0].Close()
	got := must.Do(receive())(t)
	got[0].Close()
	held[1].Close()
}

func TestAllDataTypesCanBeSent(t *testing.T) {
	leavesNothing(t)
	for _, name := range []string{"bool", "int4", "uint2", "float4_e2m1fn", "bfloat16", "complex128", "float32x4"} {
		dtype := must.Do(dlpack.ParseDataType(name))(t)
		x := must.Do(shm.New(dtype, 3, 5))(t)
		defer x.Close()
		got := exchange(t, []*dlpack.Tensor{x})
		assert.Equal(t, dtype, got[0].DType())
		assert.Equal(t, x.NumBytes(), got[0].NumBytes())
	}
}

func TestWritableIsRefusedAfterReadOnly(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 3)
	w := exchange(t, []*dlpack.Tensor{x}, shm.Writable())
	assert.False(t, w[0].ReadOnly())
	require.NoError(t, w[0].SetAt(float32(5), 0))
	v := must.Do(x.At(0))(t)
	assert.Equal(t, float32(5), v)
	y := numbers(t, 3)
	r := exchange(t, []*dlpack.Tensor{y}) // the segment is sealed now
	a, _ := pair(t)
	require.ErrorIs(t, shm.Send(t.Context(), a, r, shm.Writable()), dlpack.ErrReadOnly)
	require.ErrorIs(t, shm.Send(t.Context(), a, []*dlpack.Tensor{y}, shm.Writable()), dlpack.ErrReadOnly)
	require.NoError(t, y.SetAt(float32(6), 0)) // the sender's mapping is older than the seal
}

// The first Send or Offer of a segment decides whether other processes may write to it. After that the other choice is
// an error at the sender, and tensors in transit arrive as they were sent.
func TestTheFirstHandOverDecides(t *testing.T) {
	offering(t)
	a, b := pair(t)
	var handle shm.Handle
	hand := map[string]func(x *dlpack.Tensor, options ...shm.SendOption) error{
		"Send": func(x *dlpack.Tensor, options ...shm.SendOption) error {
			return shm.Send(t.Context(), a, []*dlpack.Tensor{x}, options...)
		},
		"Offer": func(x *dlpack.Tensor, options ...shm.SendOption) (err error) {
			handle, err = shm.Offer(x, time.Minute, options...)
			return err
		},
	}
	take := map[string]func() *dlpack.Tensor{
		"Send": func() *dlpack.Tensor {
			got := must.Do(shm.Recv(t.Context(), b))(t)
			return got[0]
		},
		"Offer": func() *dlpack.Tensor {
			got := must.Do(shm.Fetch(t.Context(), handle, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{4}}))(t)
			return got
		},
	}
	writable, readOnly := []shm.SendOption{shm.Writable()}, []shm.SendOption(nil)
	for first, underWay := range take {
		for second := range take {
			for _, options := range [][]shm.SendOption{writable, readOnly} {
				other, text := readOnly, "its segment was handed over writable before, and can no longer be made read-only; send it writable, or send a copy"
				if len(options) == 0 {
					other, text = writable, "its segment was handed over read-only before, so no process can map it writable any more; send it read-only, or send a copy"
				}
				x := numbers(t, 4)
				require.NoError(t, hand[first](x, options...))
				again := func(y *dlpack.Tensor) {
					before := handle
					err := hand[second](y, other...)
					require.ErrorIs(t, err, dlpack.ErrReadOnly)
					require.ErrorContains(t, err, text)
					handle = before
				}
				again(x)
				view := must.Do(x.Narrow(0, 1, 2))(t)
				defer view.Close()
				again(view)
				got := underWay()
				defer got.Close()
				require.Equal(t, len(options) == 0, got.ReadOnly())
				if !got.ReadOnly() { // the other process cannot change the elements either
					again(got)
				}
				require.NoError(t, hand[second](got, options...))
				again2 := take[second]()
				defer again2.Close()
				require.Equal(t, got.ReadOnly(), again2.ReadOnly())
			}
		}
	}
}

// If one tensor of a message cannot be sent, nothing is decided for the others.
func TestARefusedMessageDecidesNothing(t *testing.T) {
	leavesNothing(t)
	a, b := pair(t)
	shared, fresh := numbers(t, 3), numbers(t, 3)
	require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{shared}, shm.Writable()))
	require.ErrorContains(t, shm.Send(t.Context(), a, []*dlpack.Tensor{fresh, shared}), "tensor 1: its segment was handed over writable before")
	require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{fresh, shared}, shm.Writable()))
	for range 2 {
		got := must.Do(shm.Recv(t.Context(), b))(t)
		for _, x := range got {
			assert.False(t, x.ReadOnly())
			x.Close()
		}
	}
}

// A segment of another library of the process is recognised even if no descriptor is left to list the descriptors of
// the process.
func TestASegmentOfAnotherLibraryIsRecognisedWithoutADescriptor(t *testing.T) {
	offering(t)
	x := numbers(t, 4)
	file := must.Do(shm.Descriptor(x))(t)
	defer syscall.Close(file)
	data := must.Do(syscall.Mmap(file, 0, 16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED))(t)
	defer syscall.Munmap(data)
	lent := must.Do(dlpack.Lend(unsafe.Pointer(&data[0]), 16, false, nil, nil))(t)
	defer lent.Close()
	y := must.Do(lent.View(four))(t)
	defer y.Close()
	require.True(t, shm.IsShared(y))
	a, _ := pair(t)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: before.Max}))
	for _, z := range []*dlpack.Tensor{x, y} {
		assert.True(t, shm.IsShared(z))
		require.ErrorIs(t, shm.Send(t.Context(), a, []*dlpack.Tensor{z}), syscall.EMFILE)
		must.Fail(shm.Offer(z, time.Minute))(t, syscall.EMFILE)
	}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{y}))
}

func init() {
	// has private memory, and no descriptor for asking the kernel
	roles["cannot ask"] = func() error {
		data, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return err
		}
		x, err := dlpack.Lend(unsafe.Pointer(&data[0]), 1, false, nil, nil)
		if err != nil {
			return err
		}
		var before syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			return err
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: before.Max}); err != nil {
			return err
		}
		defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) // sanitizers open files when the process ends
		if shm.IsShared(x) {
			return errors.New("private memory is said to be shared")
		}
		return nil
	}
}

func TestPrivateMemoryIsNotSharedWithoutADescriptor(t *testing.T) {
	cmd, _ := child(t, "cannot ask")
	require.NoError(t, cmd.Wait())
}

// The receiver maps only a part of the segment, but the limit for a broadcast is the whole segment.
func TestABroadcastThatCameCanBeSentOn(t *testing.T) {
	leavesNothing(t)
	x := must.Do(shm.New(dlpack.Float32, 100, 1000))(t)
	defer x.Close()
	row := must.Do(x.Narrow(0, 3, 1))(t)
	defer row.Close()
	for rows, want := range map[int64]bool{1: true, 100: true, 101: false} {
		wide := must.Do(row.BroadcastTo(rows, 1000))(t)
		defer wide.Close()
		require.Equal(t, want, shm.IsShared(wide), "%d rows", rows)
		a, _ := pair(t)
		if !want {
			require.ErrorIs(t, shm.Send(t.Context(), a, []*dlpack.Tensor{wide}), dlpack.ErrLayout)
			continue
		}
		got := exchange(t, []*dlpack.Tensor{wide})
		require.True(t, shm.IsShared(got[0]), "%d rows", rows)
		more := exchange(t, got)
		require.Equal(t, []int64{rows, 1000}, more[0].Shape())
	}
}

func TestCopiesAndOtherMemory(t *testing.T) {
	leavesNothing(t)
	plain := must.Do(dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2))(t)
	defer plain.Close()
	a, _ := pair(t)
	require.ErrorIs(t, shm.Send(t.Context(), a, []*dlpack.Tensor{plain}), shm.ErrNotShared)
	assert.False(t, shm.IsShared(plain))
	turned := must.Do(plain.Transpose())(t)
	defer turned.Close()
	c := must.Do(shm.Copy(turned))(t)
	defer c.Close()
	assert.True(t, shm.IsShared(c))
	assert.Equal(t, dlpack.IsCopied, c.Flags())
	assert.Equal(t, []int64{2, 1}, c.Strides())
	assert.True(t, must.Do(dlpack.Equal(turned, c))(t), "%v instead of %v", c, turned)
	c.Close()
	require.ErrorIs(t, shm.Send(t.Context(), a, []*dlpack.Tensor{c}), dlpack.ErrClosed)
	must.Fail(shm.Copy(c))(t, dlpack.ErrClosed)
	wide := must.Do(numbers(t, 1, 4).BroadcastTo(5000, 4))(t)
	defer wide.Close()
	require.ErrorContains(t, shm.Send(t.Context(), a, []*dlpack.Tensor{wide}), "tensor 0: it is a broadcast of 80000 bytes")
	_, err := shm.New(dlpack.Float32, -1)
	require.ErrorContains(t, err, "shm: new: layout: shape[0] is -1, must not be negative")
	must.Fail(shm.New(dlpack.Float64, 1<<31, 1<<31))(t, dlpack.ErrOverflow)
}

func TestAContextEndsAWait(t *testing.T) {
	leavesNothing(t)
	a, b := pair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	must.Fail(shm.Recv(ctx, b))(t, context.DeadlineExceeded)
	require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{numbers(t, 2)})) // the connection still works
	got := must.Do(shm.Recv(t.Context(), b))(t)
	got[0].Close()
	a.Close()
	_, err := shm.Recv(t.Context(), b)
	assert.Equal(t, io.EOF, err)
}

func TestAContextThatHasEndedSendsAndReceivesNothing(t *testing.T) {
	leavesNothing(t)
	a, b := pair(t)
	x := numbers(t, 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		require.ErrorIs(t, shm.Send(ended, a, []*dlpack.Tensor{x}), context.Canceled)
	}
	require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{x}, shm.Writable())) // nothing was decided
	for range 50 {
		must.Fail(shm.Recv(ended, b))(t, context.Canceled)
	}
	got := must.Do(shm.Recv(t.Context(), b))(t)
	require.False(t, got[0].ReadOnly())
	got[0].Close()
}

// message returns the bytes that Send writes for a float32 tensor of 4 elements at the beginning of segment 0, after
// `change` was applied.
func message(change func(data []byte) []byte) []byte {
	order := binary.NativeEndian
	data := []byte("dlb-shm\x01")
	for _, n := range []uint32{492, 1, 1, 0, 2 | 32<<8 | 1<<16, 1, 1} {
		data = order.AppendUint32(data, n)
	}
	for _, n := range []uint64{0, 4, 1} {
		data = order.AppendUint64(data, n)
	}
	return change(append(data, make([]byte, 512-len(data))...))
}

func set(at int, value uint64, size int) func([]byte) []byte {
	return func(data []byte) []byte {
		if size == 8 {
			binary.NativeEndian.PutUint64(data[at:], value)
		} else {
			binary.NativeEndian.PutUint32(data[at:], uint32(value))
		}
		return data
	}
}

// sealed returns a descriptor of a segment of 16 bytes.
func sealed(t *testing.T, readOnly bool) int {
	x := must.Do(shm.New(dlpack.Float32, 4))(t)
	defer x.Close()
	if readOnly {
		for _, y := range exchange(t, []*dlpack.Tensor{x}) {
			y.Close()
		}
	}
	file := must.Do(shm.Descriptor(x))(t)
	return file
}

// unsealed returns a descriptor of a file of 16 bytes.
func unsealed(t *testing.T) int {
	file := must.Do(syscall.Open(filepath.Join(t.TempDir(), "file"), syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600))(t)
	require.NoError(t, syscall.Ftruncate(file, 16))
	return file
}

const hugetlb = 4 // MFD_HUGETLB

// hugePages returns a descriptor of a sealed file of huge pages. The machine may have none of these pages.
func hugePages(t *testing.T) int { return sealedFile(t, hugetlb, 1<<30) } // a multiple of every page size

// sealedFile returns a descriptor of a new file (memfd_create) of size bytes, which takes no memory.
func sealedFile(t *testing.T, flags uintptr, size int64) int {
	const cloexec, sealing, addSeals, shrinkAndGrow = 1, 2, 1024 + 9, 2 | 4
	name := must.Do(syscall.BytePtrFromString("dlbridge"))(t)
	call := map[string]uintptr{"amd64": 319, "arm64": 279}[runtime.GOARCH] // memfd_create
	file, _, errno := syscall.Syscall(call, uintptr(unsafe.Pointer(name)), cloexec|sealing|flags, 0)
	if errno != 0 {
		t.Skip("this kernel has no such files: ", errno)
	}
	require.NoError(t, syscall.Ftruncate(int(file), size))
	_, _, errno = syscall.Syscall(syscall.SYS_FCNTL, file, addSeals, shrinkAndGrow)
	require.Zero(t, errno)
	return int(file)
}

func TestWhatIsNotAsSendWritesItIsRefused(t *testing.T) {
	leavesNothing(t)
	good := func(t *testing.T) int { return sealed(t, false) }
	const onlyPath = 0x200000 // O_PATH
	same := func(data []byte) []byte { return data }
	open := func(name string, flags int) func(t *testing.T) int {
		return func(t *testing.T) int {
			fd := must.Do(syscall.Open(name, flags|syscall.O_CLOEXEC, 0))(t)
			return fd
		}
	}
	for _, test := range []struct {
		name   string
		file   func(t *testing.T) int
		change func([]byte) []byte
		err    error
		text   string
	}{
		{"as it should be", good, same, nil, ""},
		{"magic", good, set(0, 0, 4), dlpack.ErrValue, "is not a message of tensors"},
		{"size", good, set(8, 1<<30, 4), dlpack.ErrValue, "cannot describe"},
		{"tensors", good, set(12, 1<<31, 4), dlpack.ErrValue, "cannot describe"},
		{"segments", good, set(16, 254, 4), dlpack.ErrValue, "cannot describe"},
		{"no segments", good, set(16, 0, 4), dlpack.ErrValue, "1 file descriptors came with the message, but it has 0 segments"},
		{"segment", good, set(20, 1, 4), dlpack.ErrValue, "it names segment 1, but the message has 1"},
		{"no segment", good, set(20, 1<<32-1, 4), dlpack.ErrLayout, ""},
		{"dtype", good, set(24, 0xff, 4), dlpack.ErrDType, "dtype"},
		{"lanes", good, set(24, 2|32<<8, 4), dlpack.ErrDType, "dtype"},
		{"flags", good, set(28, 8, 4), dlpack.ErrValue, "flags"},
		{"rank", good, func(data []byte) []byte {
			return set(8, 492+16*dlpack.MaxRank, 4)(append(set(32, dlpack.MaxRank+1, 4)(data), make([]byte, 16*dlpack.MaxRank)...))
		}, dlpack.ErrLayout, "dimensions"},
		{"cut rank", good, set(32, 40, 4), dlpack.ErrValue, "truncated"},
		{"rest", good, func(data []byte) []byte { return set(8, 2000, 4)(append(data, make([]byte, 2020-512)...)) }, dlpack.ErrValue, "follow"},
		{"broadcast", good, func(data []byte) []byte { return set(44, 1<<40, 8)(set(52, 0, 8)(data)) }, dlpack.ErrLayout, "broadcast"},
		{"offset", good, set(36, 4, 8), dlpack.ErrOverflow, "reach from byte 4 to 20"},
		{"huge offset", good, set(36, 1<<63, 8), dlpack.ErrOverflow, "reach from"},
		{"large offset", good, set(36, 1<<62, 8), dlpack.ErrOverflow, "segment has 16 bytes"},
		{"shape", good, set(44, 5, 8), dlpack.ErrOverflow, "reach from byte 0 to 20"},
		{"huge shape", good, set(44, 1<<62, 8), nil, ""},
		{"negative shape", good, set(44, 1<<63, 8), dlpack.ErrLayout, ""},
		{"empty shape", good, set(44, 0, 8), dlpack.ErrLayout, ""},
		{"stride", good, set(52, 2, 8), dlpack.ErrOverflow, "reach"},
		{"negative stride", good, set(52, 1<<64-1, 8), dlpack.ErrOverflow, "reach from byte -12"},
		{"huge stride", good, set(52, 1<<62, 8), nil, ""},
		{"writable where it is sealed", func(t *testing.T) int { return sealed(t, true) }, set(28, 0, 4), dlpack.ErrReadOnly, "described as writable"},
		{"it can shrink", unsealed, same, dlpack.ErrValue, "must be copied; CopyUnsealed must allow as many bytes, but is 0"},
		{"a file", open("/proc/self/exe", syscall.O_RDONLY), same, dlpack.ErrValue, "must be copied; CopyUnsealed must allow as many bytes, but is 0"},
		{"huge pages", hugePages, same, dlpack.ErrValue, "must be copied; CopyUnsealed must allow as many bytes, but is 0"},
		{"a folder", open("/", syscall.O_RDONLY), same, dlpack.ErrValue, "does not refer to a regular file"},
		{"a device", open("/dev/zero", syscall.O_RDWR), same, dlpack.ErrValue, "does not refer to a regular file"},
		{"a path", open("/proc/self/exe", onlyPath), same, nil, ""},
		{"a pipe", func(t *testing.T) int {
			var ends [2]int
			require.NoError(t, syscall.Pipe2(ends[:], syscall.O_CLOEXEC))
			syscall.Close(ends[1])
			return ends[0]
		}, same, dlpack.ErrValue, "does not refer to a regular file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			leavesNothing(t)
			a, b := pair(t)
			file := test.file(t)
			_, _, err := a.WriteMsgUnix(message(test.change), syscall.UnixRights(file), nil)
			syscall.Close(file)
			require.NoError(t, err)
			got, err := shm.Recv(t.Context(), b)
			if test.name == "as it should be" {
				require.NoError(t, err)
				got[0].Close()
				return
			}
			require.Error(t, err)
			assert.Nil(t, got)
			if test.err != nil {
				require.ErrorIs(t, err, test.err)
			}
			assert.ErrorContains(t, err, test.text)
		})
	}
}

func TestDescriptorsThatDoNotFitTheirNumber(t *testing.T) {
	leavesNothing(t)
	for _, count := range []int{0, 2, 250} {
		a, b := pair(t)
		var files []int
		for range count {
			files = append(files, sealed(t, false))
		}
		_, _, err := a.WriteMsgUnix(message(func(data []byte) []byte { return data }), syscall.UnixRights(files...), nil)
		require.NoError(t, err)
		for _, file := range files {
			syscall.Close(file)
		}
		_, err = shm.Recv(t.Context(), b)
		require.ErrorContains(t, err, fmt.Sprintf("%d file descriptors came with the message, but it has 1 segments", count))
	}
}

func TestMessagesThatEndInTheMiddle(t *testing.T) {
	leavesNothing(t)
	whole := message(func(data []byte) []byte { return data })
	for size := 1; size < len(whole); size++ {
		a, b := pair(t)
		file := sealed(t, false)
		_, _, err := a.WriteMsgUnix(whole[:size], syscall.UnixRights(file), nil)
		syscall.Close(file)
		require.NoError(t, err)
		a.Close()
		_, err = shm.Recv(t.Context(), b)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "after %d bytes", size)
	}
}

// The connections stay open, so that Recv would wait for the rest of a message.
func TestTheFirstWrongByteEndsRecv(t *testing.T) {
	leavesNothing(t)
	header := message(set(8, 1<<30, 4))[:20]
	for _, test := range []struct{ beginning, text string }{
		{"x", "is not a message of tensors"},
		{"dlb-shM", "is not a message of tensors"},
		{"GET / HTTP/1.1\r\n\r\n", "is not a message of tensors"},
		{"dlb-shm\x02", "the message has version 2, but this library reads version 1"},
		{string(header), "cannot describe"},
	} {
		a, b := pair(t)
		must.Do(a.Write([]byte(test.beginning)))(t)
		_, err := shm.Recv(t.Context(), b)
		require.ErrorIs(t, err, dlpack.ErrValue)
		require.ErrorContains(t, err, test.text)
	}
}

// lingering returns a descriptor of a TCP socket whose last close waits until everything was sent, for at most a minute. The other side
// reads nothing until the test ends.
func lingering(t *testing.T) int {
	listener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	conn := must.Do(net.Dial("tcp", listener.Addr().String()))(t)
	defer conn.Close()
	peer := must.Do(listener.Accept())(t)
	t.Cleanup(func() { peer.Close() })
	require.NoError(t, conn.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	must.Fail(io.Copy(conn, zeros{}))(t, os.ErrDeadlineExceeded)
	file := must.Do(conn.(*net.TCPConn).File())(t)
	defer file.Close()
	fd := must.Do(syscall.Dup(int(file.Fd())))(t)
	require.NoError(t, syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 60}))
	return fd
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// sendLingering sends bytes with lingering descriptors. The message then holds the last references to them.
func sendLingering(t *testing.T, conn net.Conn, data []byte, count int) {
	var files []int
	for range count {
		files = append(files, lingering(t))
	}
	_, _, err := conn.(*net.UnixConn).WriteMsgUnix(data, syscall.UnixRights(files...), nil)
	require.NoError(t, err)
	for _, file := range files {
		syscall.Close(file)
	}
}

// A process that sends a descriptor can make closing it take any time. Recv does not wait for the closing.
func TestRecvDoesNotWaitUntilAStrangersDescriptorIsClosed(t *testing.T) {
	leavesNothing(t)
	whole := message(func(data []byte) []byte { return data })
	start := time.Now()
	for _, test := range []struct {
		data  []byte
		count int
	}{{whole, 1}, {whole, 2}, {[]byte("x"), 1}, {whole[:100], 1}} {
		a, b := pair(t)
		sendLingering(t, a, test.data, test.count)
		a.Close()
		_, err := shm.Recv(t.Context(), b)
		require.Error(t, err)
	}
	assert.Less(t, time.Since(start), 30*time.Second)
}

func init() {
	// makes two offers, writes their handles, and ends when a byte comes
	roles["offer"] = func() error {
		conn := connection(failure{}, 3)
		var handles []shm.Handle
		for range 2 {
			x, err := shm.New(dlpack.Float32, 4)
			if err != nil {
				return err
			}
			h, err := shm.Offer(x, time.Hour)
			if err != nil {
				return err
			}
			handles = append(handles, h)
		}
		if err := json.NewEncoder(conn).Encode(handles); err != nil {
			return err
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
}

// Offers and the end of a process do not wait for it either.
func TestOffersDoNotWaitUntilAStrangersDescriptorIsClosed(t *testing.T) {
	leavesNothing(t)
	cmd, conn := child(t, "offer")
	var handles []shm.Handle
	require.NoError(t, json.NewDecoder(conn).Decode(&handles))
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP)) // so that the sender's descriptors are closed first
	must.Do(syscall.Wait4(cmd.Process.Pid, new(syscall.WaitStatus), syscall.WUNTRACED, nil))(t)
	start := time.Now()
	for _, data := range [][]byte{{1}, make([]byte, 16)} { // a part of a token, and a token without an offer
		visitor := must.Do(net.Dial("unix", "@"+handles[0].Socket))(t)
		defer visitor.Close()
		sendLingering(t, visitor, data, 2)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	x := must.Do(shm.Fetch(t.Context(), handles[0], four))(t)
	x.Close()
	must.Do(conn.Write([]byte{1}))(t)
	require.NoError(t, cmd.Wait())
	assert.Less(t, time.Since(start), 30*time.Second)
}

// The process that made a handle may send more than an answer.
func TestFetchDoesNotWaitForWhatIsLeftOfAnAnswer(t *testing.T) {
	leavesNothing(t)
	h := shm.Handle{Socket: socketName(), Token: strings.Repeat("0", 32), Size: 16}
	listener := must.Do(net.Listen("unix", "@"+h.Socket))(t)
	defer listener.Close()
	file := lingering(t)
	start := time.Now()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			conn.Write([]byte{0})
			conn.(*net.UnixConn).WriteMsgUnix([]byte{1}, syscall.UnixRights(file), nil)
			syscall.Close(file)
			conn.Close()
		}
	}()
	must.Fail(shm.Fetch(t.Context(), h, four))(t, shm.ErrNotOffered)
	assert.Less(t, time.Since(start), 30*time.Second)
}

// The message arrives byte by byte, with its descriptor at the first byte.
func TestAMessageMayComeInAnyParts(t *testing.T) {
	leavesNothing(t)
	for _, rank := range []int{1, 100} { // the message is larger than one read
		shape := make([]int64, rank)
		for i := range shape {
			shape[i] = 1
		}
		x := must.Do(shm.New(dlpack.Int8, shape...))(t)
		a, b := pair(t)
		require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{x}))
		x.Close()
		data, control := make([]byte, 4096), make([]byte, 128)
		n, m, _, _, err := b.ReadMsgUnix(data, control)
		require.NoError(t, err)
		messages := must.Do(syscall.ParseSocketControlMessage(control[:m]))(t)
		files := must.Do(syscall.ParseUnixRights(&messages[0]))(t)
		go func() {
			a.WriteMsgUnix(data[:1], syscall.UnixRights(files...), nil)
			syscall.Close(files[0])
			for i := 1; i < n; i++ {
				a.Write(data[i : i+1])
			}
		}()
		got := must.Do(shm.Recv(t.Context(), b))(t)
		assert.Equal(t, shape, got[0].Shape())
		got[0].Close()
	}
}

// Options of the receiver's socket request further control data. The data takes up room, and some of it is a
// descriptor.
func TestOptionsOfTheSocketChangeNothing(t *testing.T) {
	leavesNothing(t)
	options := map[string]int{"SO_PASSCRED": 16, "SO_PASSSEC": 34, "SO_PASSPIDFD": 76, "SO_INQ": 84}
	var ts []*dlpack.Tensor
	for range 253 {
		ts = append(ts, numbers(t, 1))
	}
	a, b := pair(t)
	raw := must.Do(b.SyscallConn())(t)
	for name, option := range options {
		var failed error
		require.NoError(t, raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, 1) }))
		if failed != nil {
			t.Logf("%s: %v", name, failed) // an older kernel
		}
		before := allDescriptors(t)
		for _, count := range []int{1, len(ts)} {
			require.NoError(t, shm.Send(t.Context(), a, ts[:count]))
			got := must.Do(shm.Recv(t.Context(), b))(t)
			require.Len(t, got, count)
			for _, x := range got {
				x.Close()
			}
		}
		assert.LessOrEqual(t, allDescriptors(t), before, name) // the thread of an earlier test may end meanwhile
	}
}

// allDescriptors returns the number of descriptors of this process, including those that descriptors leaves out.
func allDescriptors(t *testing.T) int {
	found := must.Do(filepath.Glob("/proc/self/fd/*"))(t)
	return len(found)
}

// A pending message is refused with EMFILE, and leaves nothing behind.
func TestRecvWithoutADescriptorIsAnErrorOfTheSystem(t *testing.T) {
	leavesNothing(t)
	a, b := pair(t)
	require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{numbers(t, 4)}))
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: before.Max}))
	_, err := shm.Recv(t.Context(), b)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	require.ErrorIs(t, err, syscall.EMFILE)
}

func TestUnsealedFilesAreCopiedIfTheCallerSaysSo(t *testing.T) {
	leavesNothing(t)
	a, b := pair(t)
	file := unsealed(t)
	must.Do(syscall.Pwrite(file, []byte("\x00\x00\x80\x3f\x00\x00\x00\x40"), 0))(t)
	_, _, err := a.WriteMsgUnix(message(func(data []byte) []byte { return data }), syscall.UnixRights(file), nil)
	require.NoError(t, err)
	got := must.Do(shm.Recv(t.Context(), b, shm.CopyUnsealed(16)))(t)
	require.NoError(t, syscall.Ftruncate(file, 0))
	syscall.Close(file)
	assert.Contains(t, text(got[0]), "[1 2 0 0]")
	assert.Equal(t, dlpack.IsCopied, got[0].Flags()&dlpack.IsCopied)
	got[0].Close()
}

// A file on disk has no seals. If a tensor in it is sent as writable, the receiver gets a copy, because a copy can be
// written.
func TestAnObjectOnDiskThatIsSentWritableIsCopied(t *testing.T) {
	leavesNothing(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "object"), []byte("0123456789abcdef"), 0o600))
	x := must.Do(shm.Attach(dir, "object", bytesAt4, shm.TrustPeer()))(t)
	defer x.Close()
	a, b := pair(t)
	require.NoError(t, shm.Send(t.Context(), a, []*dlpack.Tensor{x}, shm.Writable()))
	got := must.Do(shm.Recv(t.Context(), b, shm.CopyUnsealed(16)))(t)
	defer got[0].Close()
	require.NoError(t, got[0].SetAt(uint8(1), 0, 0))
	v := must.Do(x.At(0, 0))(t)
	assert.Equal(t, uint8('4'), v)
}

func TestADescriptorThatIsMissingIsAnErrorOfTheSystem(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 4)
	a, _ := pair(t)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: before.Max}))
	err := shm.Send(t.Context(), a, []*dlpack.Tensor{x})
	_, offerErr := shm.Offer(x, time.Minute)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorIs(t, offerErr, syscall.EMFILE)
}

func TestASegmentThatTheMachineCannotHaveIsRefused(t *testing.T) {
	leavesNothing(t)
	must.Fail(shm.New(dlpack.Uint8, 64<<40))(t, dlpack.ErrMemory)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: before.Max}))
	x := must.Do(shm.New(dlpack.Uint8, 4096))(t)
	defer x.Close()
	must.Fail(shm.New(dlpack.Uint8, 4097))(t, syscall.EFBIG)
}

// ---- other processes -----------------------------------------------------------------------------

// child starts this program in a role, and returns the connection to it.
func child(t testing.TB, role string) (*exec.Cmd, *net.UnixConn) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	end := os.NewFile(uintptr(fds[1]), "socket")
	defer end.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SHM_TEST_ROLE="+role)
	cmd.ExtraFiles = []*os.File{end}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	conn := connection(t, fds[0])
	t.Cleanup(func() {
		conn.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, conn
}

type failure struct{}

func (failure) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (failure) FailNow()                          { panic("failed") }

var roles = map[string]func() error{
	// doubles the elements of the received tensors in place, and sends them back
	"double": func() error {
		conn := connection(failure{}, 3)
		for {
			ts, err := shm.Recv(context.Background(), conn)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			for _, x := range ts {
				err := dlpack.Use(x, func(values []float32) error {
					for i := range values {
						values[i] *= 2
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			if err := shm.Send(context.Background(), conn, ts, shm.Writable()); err != nil {
				return err
			}
			for _, x := range ts {
				x.Close()
			}
		}
	},
	// writes to read-only memory, in spite of its flag
	"fault": func() error {
		conn := connection(failure{}, 3)
		ts, err := shm.Recv(context.Background(), conn)
		if err != nil {
			return err
		}
		data, start, err := ts[0].UnsafeBytes()
		if err != nil {
			return err
		}
		data[start] = 1
		return nil
	},
	// answers each message of 200 bytes with one byte
	"answer bytes": func() error {
		conn := connection(failure{}, 3)
		message := make([]byte, 200)
		for {
			if _, err := io.ReadFull(conn, message); err != nil {
				return err
			}
			if _, err := conn.Write(message[:1]); err != nil {
				return err
			}
		}
	},
	// answers each message of tensors with one byte, and closes them
	"answer tensors": func() error {
		conn := connection(failure{}, 3)
		for {
			ts, err := shm.Recv(context.Background(), conn)
			if err != nil {
				return err
			}
			if _, err := conn.Write([]byte{1}); err != nil {
				return err
			}
			for _, x := range ts {
				x.Close()
			}
		}
	},
	// holds the received tensors until it is killed
	"hold": func() error {
		conn := connection(failure{}, 3)
		for {
			if _, err := shm.Recv(context.Background(), conn); err != nil {
				return err
			}
			if _, err := conn.Write([]byte{1}); err != nil {
				return err
			}
		}
	},
}

func TestAnotherProcessWorksOnTheMemory(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 1000, 1000)
	_, conn := child(t, "double")
	for round := range 3 {
		require.NoError(t, shm.Send(t.Context(), conn, []*dlpack.Tensor{x}, shm.Writable()))
		back := must.Do(shm.Recv(t.Context(), conn))(t)
		v := must.Do(x.At(0, 3))(t)
		assert.Equal(t, float32(3*int(2<<round)), v)
		require.NoError(t, back[0].SetAt(float32(7), 1, 1)) // it is the same segment
		v = must.Do(x.At(1, 1))(t)
		assert.Equal(t, float32(7), v)
		back[0].Close()
	}
}

func TestAConsumerThatIgnoresTheFlagEndsItself(t *testing.T) {
	leavesNothing(t)
	x := numbers(t, 8)
	cmd, conn := child(t, "fault")
	require.NoError(t, shm.Send(t.Context(), conn, []*dlpack.Tensor{x}))
	err := cmd.Wait()
	require.Error(t, err)
	v := must.Do(x.At(0))(t)
	assert.Equal(t, float32(0), v)
}

// inode names the segment of a tensor.
func inode(t *testing.T, x *dlpack.Tensor) string {
	file := must.Do(shm.Descriptor(x))(t)
	defer syscall.Close(file)
	var status syscall.Stat_t
	require.NoError(t, syscall.Fstat(file, &status))
	return fmt.Sprint(status.Dev, status.Ino)
}

// segments returns the segments that processes of the system have open, by inode. Other programs may have some too.
func segments(t *testing.T) map[string]bool {
	found := map[string]bool{}
	links := must.Do(filepath.Glob("/proc/[0-9]*/fd/*"))(t)
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && strings.HasPrefix(name, "/memfd:dlbridge") {
			var status syscall.Stat_t
			if syscall.Stat(link, &status) == nil {
				found[fmt.Sprint(status.Dev, status.Ino)] = true
			}
		}
	}
	return found
}

func TestProcessesThatAreKilledLeaveNothing(t *testing.T) {
	leavesNothing(t)
	count := 100
	if testing.Short() {
		count = 10
	}
	x := numbers(t, 1<<16)
	made := []string{inode(t, x)}
	require.Contains(t, segments(t), made[0])
	var kept []*exec.Cmd
	for i := range count {
		cmd, conn := child(t, "hold")
		y := must.Do(shm.New(dlpack.Float32, int64(1000+i)))(t)
		made = append(made, inode(t, y))
		require.NoError(t, shm.Send(t.Context(), conn, []*dlpack.Tensor{x, y}))
		y.Close() // only the other process or the message in transit holds it
		if i%2 == 0 {
			one := make([]byte, 1)
			must.Do(conn.Read(one))(t)
		}
		kept = append(kept, cmd)
		if i%5 != 4 {
			continue
		}
		for _, cmd := range kept {
			require.NoError(t, cmd.Process.Kill())
			cmd.Wait()
		}
		kept = kept[:0]
	}
	require.NoError(t, dlpack.Use(x, func(values []float32) error {
		for i, v := range values {
			if v != float32(i) {
				return fmt.Errorf("element %d is %v", i, v)
			}
		}
		return nil
	}))
	x.Close()
	left := segments(t)
	for _, segment := range made {
		assert.NotContains(t, left, segment)
	}
	assert.Zero(t, shm.Mappings())
}

func TestMutatedMessagesAreRefusedOrHarmless(t *testing.T) {
	leavesNothing(t)
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	random := rand.New(rand.NewPCG(1, 2))
	good := message(func(data []byte) []byte { return data })
	x := numbers(t, 4)
	file := must.Do(shm.Descriptor(x))(t)
	defer syscall.Close(file)
	refused := 0
	for range rounds {
		data := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			switch at := random.IntN(60); random.IntN(3) {
			case 0:
				data[at] ^= 1 << random.IntN(8)
			case 1:
				data[at] = byte(random.Uint32())
			default:
				data[at] = 0
			}
		}
		func() {
			a, b := ends(t)
			defer b.Close()
			_, _, err := a.WriteMsgUnix(data, syscall.UnixRights(file), nil)
			require.NoError(t, err)
			a.Close()
			got, err := shm.Recv(t.Context(), b)
			if err != nil {
				refused++
				require.Nil(t, got)
				return
			}
			for _, y := range got {
				_, err := y.AppendBytes(nil) // reads all elements, at most 16 bytes
				require.NoError(t, err)
				require.NoError(t, y.Close())
			}
		}()
	}
	assert.Greater(t, refused, rounds/2)
}
