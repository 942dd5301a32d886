//go:build linux && cgo

package shm_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// object makes a file with the bytes 0 to 15, as shm_open does, and returns its folder and name.
func object(t *testing.T) (dir, name string) {
	dir = must.Do(os.MkdirTemp(shm.Directory, "dlbridge-test-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	bytes := make([]byte, 16)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "object"), bytes, 0o600))
	return dir, "object"
}

var bytesAt4 = dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2, 3}, ByteOffset: 4}

func TestAnObjectIsCopied(t *testing.T) {
	leavesNothing(t)
	dir, name := object(t)
	x := must.Do(shm.Attach(dir, name, bytesAt4, nil))(t)
	defer x.Close()
	require.NoError(t, os.Truncate(filepath.Join(dir, name), 0)) // an access to the object would end the process
	assert.Equal(t, []uint8{4, 5, 6, 7, 8, 9}, must.Do(dlpack.Values[uint8](x))(t))
	assert.NotZero(t, x.Flags()&dlpack.IsCopied)
	assert.False(t, shm.IsShared(x))
	require.NoError(t, x.SetAt(uint8(1), 0, 0)) // a copy of the caller
}

func TestATrustedObjectIsMapped(t *testing.T) {
	leavesNothing(t)
	dir, name := object(t)
	x := must.Do(shm.Attach(dir, name, bytesAt4, shm.TrustPeer()))(t)
	defer x.Close()
	require.NoError(t, x.SetAt(uint8(99), 1, 2))
	bytes := must.Do(os.ReadFile(filepath.Join(dir, name)))(t)
	assert.Equal(t, byte(99), bytes[9])
	assert.False(t, shm.IsShared(x)) // the receiver could not trust the object
	msg, _, err := bridge.Encode([]*dlpack.Tensor{x}, shm.Offers([]*dlpack.Tensor{x}, time.Minute))
	require.NoError(t, err)
	assert.Len(t, msg.Parts[0], 6)

	spec := bytesAt4
	spec.ReadOnly = true
	only := must.Do(shm.Attach(dir, name, spec, shm.TrustPeer()))(t)
	defer only.Close()
	assert.True(t, only.ReadOnly())
	require.NoError(t, os.Remove(filepath.Join(dir, name)))
	v := must.Do(only.At(1, 2))(t)
	assert.Equal(t, uint8(99), v)
}

func TestNamesAndObjectsAreChecked(t *testing.T) {
	leavesNothing(t)
	dir, name := object(t)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, bad := range []string{"", ".", "..", "../" + filepath.Base(dir) + "/object", "/object", "folder/x", "a\x00b"} {
		_, err := shm.Attach(dir, bad, bytesAt4)
		require.ErrorIs(t, err, dlpack.ErrValue, "%q", bad)
		require.ErrorContains(t, err, "is not the name of a file in "+dir)
	}
	for _, options := range [][]shm.AttachOption{nil, {shm.TrustPeer()}} {
		_, err := shm.Attach(dir, "folder", bytesAt4, options...)
		require.Error(t, err)
	}
	for _, test := range []struct {
		name string
		spec dlpack.Spec
		want error
	}{
		{"nothing", bytesAt4, os.ErrNotExist},
		{"link", bytesAt4, syscall.ELOOP},
		{"pipe", bytesAt4, dlpack.ErrValue},
		{name, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{17}}, dlpack.ErrOverflow},
		{name, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{13}, ByteOffset: 4}, dlpack.ErrOverflow},
		{name, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{1}, ByteOffset: -1}, dlpack.ErrValue},
		{name, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{1 << 40}, Strides: []int64{0}}, dlpack.ErrLayout},
		{name, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2}, Strides: []int64{1, 1}}, dlpack.ErrLayout},
		{name, dlpack.Spec{DType: dlpack.Uint8, Shape: make([]int64, 99)}, dlpack.ErrLayout},
	} {
		for _, options := range [][]shm.AttachOption{nil, {shm.TrustPeer()}} {
			_, err := shm.Attach(dir, test.name, test.spec, options...)
			require.ErrorIs(t, err, test.want, "%s %v", test.name, test.spec)
			if test.name == "pipe" {
				require.ErrorContains(t, err, "it is not a regular file")
			}
		}
	}
}

// The files of /sys have fewer bytes than their size, like an object that becomes smaller while it is copied.
func TestAnObjectThatBecomesSmallerIsRefused(t *testing.T) {
	leavesNothing(t)
	const dir, name = "/sys/kernel/mm/transparent_hugepage", "enabled"
	if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != 4096 {
		t.Skip(dir, " is not there")
	}
	_, err := shm.Attach(dir, name, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{4096}})
	require.ErrorIs(t, err, dlpack.ErrValue)
	require.ErrorContains(t, err, "shm: attach: its file: it became smaller while it was copied")
}

func TestObjectsOfPythonStayTheirs(t *testing.T) {
	leavesNothing(t)
	python := must.Do(exec.LookPath("python3"))(t)
	cmd := exec.Command(python, "-c", `
from multiprocessing import shared_memory
m = shared_memory.SharedMemory(create=True, size=16)
m.buf[:16] = bytes(range(16))
print(m.name, flush=True)
input()
print(m.buf[9])
m.close()
m.unlink()
`)
	in := must.Do(cmd.StdinPipe())(t)
	out := must.Do(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	name := must.Do(lines.ReadString('\n'))(t)
	name = strings.TrimSpace(name)
	x := must.Do(shm.Attach(shm.Directory, name, bytesAt4, shm.TrustPeer()))(t)
	require.NoError(t, x.SetAt(uint8(77), 1, 2))
	x.Close()
	assert.FileExists(t, filepath.Join(shm.Directory, name)) // Close does not remove the object
	in.Write([]byte("\n"))
	byte9 := must.Do(lines.ReadString('\n'))(t)
	assert.Equal(t, "77\n", byte9)
	require.NoError(t, cmd.Wait())
	assert.NoFileExists(t, filepath.Join(shm.Directory, name))
}
