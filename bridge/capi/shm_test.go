//go:build cgo && linux

package capi_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestProcessesInCShareMemory(t *testing.T) {
	program := compile(t, "cc", "shm.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	run(t, sanitized, nil, program)
}

// The thread that answers fetches ends with the last offer. So a process whose other threads have ended can end.
func TestAnOfferDoesNotKeepAProcessAlive(t *testing.T) {
	dir := must.Do(tensorLibrary())(t)
	run(t, nil, nil, compile(t, "cc", "shm.c", append(slices.Clone(c11), linked(dir, "dlbridge_tensor")...)...), "leave")
}

// The program gives up its rights, but a sanitizer needs them.
func TestWhatTheSystemRefusesIsNotSaidOfTensors(t *testing.T) {
	dir := must.Do(tensorLibrary())(t)
	run(t, nil, nil, compile(t, "cc", "shm.c", append(slices.Clone(c11), linked(dir, "dlbridge_tensor")...)...), "refuse")
}

// The library is built without a sanitizer, which would make stack frames larger.
func TestPlainFunctionsRunOnSmallStacks(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	run(t, nil, nil, compile(t, "cc", "plain_stack.c", append(slices.Clone(c11), linked(dir, "dlbridge_tensor")...)...))
}

// A program in C doubles the elements of tensors that Go sends.
func TestGoAndCShareMemory(t *testing.T) {
	program := compile(t, "cc", "shm.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	pair := must.Do(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))(t)
	here, there := os.NewFile(uintptr(pair[0]), "here"), os.NewFile(uintptr(pair[1]), "there")
	conn := must.Do(net.FileConn(here))(t)
	here.Close()
	command := exec.CommandContext(t.Context(), program, "3")
	command.Env = append(os.Environ(), sanitized...)
	command.ExtraFiles = []*os.File{there}
	command.Stderr = os.Stderr
	require.NoError(t, command.Start())
	there.Close()
	for _, n := range []int64{1, 1 << 20} {
		x := must.Do(shm.New(dlpack.Float32, n))(t)
		require.NoError(t, x.Fill(float32(21)))
		require.NoError(t, shm.Send(t.Context(), conn.(*net.UnixConn), []*dlpack.Tensor{x}, shm.Writable()))
		ts := must.Do(shm.Recv(t.Context(), conn.(*net.UnixConn)))(t)
		require.Len(t, ts, 1)
		for _, y := range []*dlpack.Tensor{x, ts[0]} { // one memory, mapped twice
			v := must.Do(y.At(n - 1))(t)
			assert.Equal(t, float32(42), v)
			y.Close()
		}
	}
	conn.Close()
	require.NoError(t, command.Wait())
	assert.Zero(t, shm.Mappings())
}

// A handle that a program in C has made is fetched in Go, and the other way round.
func TestGoAndCFetchHandlesOfEachOther(t *testing.T) {
	program := compile(t, "cc", "shm.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	spec := dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 2}}
	command := exec.CommandContext(t.Context(), program, "offer")
	command.Env = append(os.Environ(), sanitized...)
	command.Stderr = os.Stderr
	input := must.Do(command.StdinPipe())(t)
	output := must.Do(command.StdoutPipe())(t)
	require.NoError(t, command.Start())
	var h shm.Handle
	readonly := 2
	must.Do(fmt.Fscan(output, &h.Socket, &h.Token, &h.Offset, &h.Size, &readonly))(t)
	require.Zero(t, readonly)
	x := must.Do(shm.Fetch(t.Context(), h, spec))(t)
	require.NoError(t, dlpack.Use(x, func(values []float32) error {
		for i := range values {
			values[i] *= 2
		}
		return nil
	}))
	input.Close()
	require.NoError(t, command.Wait())

	h = must.Do(shm.Offer(x, time.Minute, shm.Writable()))(t)
	run(t, sanitized, nil, program, "fetch", h.Socket, h.Token, fmt.Sprint(h.Offset), fmt.Sprint(h.Size), "0")
	last := must.Do(x.At(1, 1))(t)
	assert.Equal(t, float32(12), last)
	x.Close()
	assert.Zero(t, shm.Mappings())
}
