//go:build linux

package capi_test

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
)

func TestG88ProcessesInCShareMemory(t *testing.T) {
	program := compile(t, "cc", "shm.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	run(t, sanitized, nil, program)
}

// A program in C doubles the elements of tensors that Go sends.
func TestGoAndCShareMemory(t *testing.T) {
	program := compile(t, "cc", "shm.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	here, there := os.NewFile(uintptr(pair[0]), "here"), os.NewFile(uintptr(pair[1]), "there")
	conn, err := net.FileConn(here)
	require.NoError(t, err)
	here.Close()
	command := exec.CommandContext(t.Context(), program, "3")
	command.Env = append(os.Environ(), sanitized...)
	command.ExtraFiles = []*os.File{there}
	command.Stderr = os.Stderr
	require.NoError(t, command.Start())
	there.Close()
	for _, n := range []int64{1, 1 << 20} {
		x, err := shm.New(dlpack.Float32, n)
		require.NoError(t, err)
		require.NoError(t, x.Fill(float32(21)))
		require.NoError(t, shm.Send(t.Context(), conn.(*net.UnixConn), []*dlpack.Tensor{x}, shm.Writable()))
		ts, err := shm.Recv(t.Context(), conn.(*net.UnixConn))
		require.NoError(t, err)
		require.Len(t, ts, 1)
		for _, y := range []*dlpack.Tensor{x, ts[0]} { // one memory, mapped twice
			v, err := y.At(n - 1)
			require.NoError(t, err)
			assert.Equal(t, float32(42), v)
			y.Close()
		}
	}
	conn.Close()
	require.NoError(t, command.Wait())
	assert.Zero(t, shm.Mappings())
}
