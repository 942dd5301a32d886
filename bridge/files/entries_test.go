//go:build linux || darwin

package files_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// These tests need no cgo.

// write writes a file in a new folder.
func write(t testing.TB, name, contents string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(contents), 0o600))
	return path
}

// contents returns a file of safetensors with tensors of bytes, which count up from 0.
func contents(t testing.TB, size int64, names ...string) string {
	var views []safetensors.View
	for _, name := range names {
		views = append(views, safetensors.View{Name: name, DType: safetensors.U8, Shape: []int64{size}})
	}
	head, _, err := safetensors.AppendHeader(nil, views, map[string]string{"b": "2", "a": "1"})
	require.NoError(t, err)
	for i := range size * int64(len(names)) {
		head = append(head, byte(i))
	}
	return string(head)
}

func TestOpenDescribesTensors(t *testing.T) {
	path := write(t, "model", contents(t, 3, "x", "y"))
	f := must.Own(files.Open(path))(t)
	assert.Equal(t, files.Safetensors, f.Format())
	assert.Equal(t, []files.Field{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}, f.Metadata())
	start := int64(len(contents(t, 3, "x", "y")) - 6)
	assert.Equal(t, []files.Entry{
		{Name: "x", Type: "U8", DType: dlpack.Uint8, Shape: []int64{3}, Offset: start, Size: 3, Aligned: true, Path: path},
		{Name: "y", Type: "U8", DType: dlpack.Uint8, Shape: []int64{3}, Offset: start + 3, Size: 3, Aligned: true, Path: path},
	}, f.Entries())
	assert.Equal(t, f.Entries()[1], must.Do(f.Find("y"))(t))
	assert.Equal(t, "+\x03\x04\x05", string(must.Do(f.AppendBytes([]byte("+"), "y"))(t)))
	for _, name := range []string{"", "z", strings.Repeat("z", 10000)} {
		must.Fail(f.Find(name))(t, elements.ErrNoName)
		dst, err := f.AppendBytes([]byte("+"), name)
		assert.ErrorIs(t, err, elements.ErrNoName)
		assert.Less(t, len(err.Error()), 300)
		assert.Equal(t, "+", string(dst))
	}
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	must.Fail(f.AppendBytes(nil, "x"))(t, dlpack.ErrClosed)
	assert.ErrorIs(t, f.Verify(), dlpack.ErrClosed)
	assert.Len(t, f.Entries(), 2)
	_, err := f.AppendBytes(nil, "x")
	assert.EqualError(t, err, "files: "+path+`: tensor "x": the File is closed`)
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	fifo, socket := filepath.Join(folder, "fifo"), filepath.Join(folder, "socket")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	must.Own(net.Listen("unix", socket))(t)
	whole := contents(t, 3, "x", "y")
	tests := []struct {
		name, path string
		cause      error
		text       string
		options    []files.OpenOption
	}{
		{"missing", filepath.Join(folder, "none"), os.ErrNotExist, "no such file or directory", nil},
		{"name with NUL", "a\x00b", syscall.EINVAL, "invalid argument", nil},
		{"directory", folder, files.ErrKind, "it is a directory", nil},
		{"FIFO without a writer", fifo, files.ErrKind, "it is a FIFO", nil},
		{"socket", socket, files.ErrKind, "it is a socket", nil},
		{"device", "/dev/zero", files.ErrKind, "it is a device", nil},
		{"empty", write(t, "empty", ""), files.ErrKind, "the file is empty", nil},
		{"text", write(t, "text", "hello, world"), files.ErrFormat, `byte 0: the file begins with "hello, w", but must have one of the formats [safetensors`, nil},
		{"one byte", write(t, "short", "\x93"), files.ErrFormat, `byte 0: the file begins with "\x93"`, nil},
		{"index", write(t, "index", `{"weight_map": {}}`), files.ErrFormat, "byte 0: the file is JSON; OpenSet opens", nil},
		{"cut", write(t, "cut", whole[:len(whole)-1]), elements.ErrTruncated, "safetensors: byte ", nil},
		{"writable", write(t, "whole", whole), files.ErrFormat, "only npy", []files.OpenOption{files.Writable()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := open(t)
			f, err := files.Open(tt.path, tt.options...)
			assert.ErrorIs(t, err, tt.cause)
			assert.ErrorContains(t, err, "files: open "+tt.path+": ")
			assert.ErrorContains(t, err, tt.text)
			assert.Nil(t, f)
			assert.Equal(t, before, open(t))
		})
	}
}

func TestOpenRefusesFilesWithoutASize(t *testing.T) {
	for _, path := range []string{"/proc/version", "/proc/self/maps"} {
		if _, err := os.Stat(path); err != nil {
			continue // not on Linux
		}
		_, err := files.Open(path)
		assert.ErrorIs(t, err, files.ErrKind)
		assert.ErrorContains(t, err, "size of 0 for a file with contents, as for files of /proc")
	}
}

func TestEveryCutIsRefused(t *testing.T) {
	whole := contents(t, 3, "x", "y")
	path := write(t, "cut", whole)
	for n := len(whole) - 1; n >= 0; n-- {
		require.NoError(t, os.Truncate(path, int64(n)))
		_, err := files.Open(path)
		assert.Error(t, err, n)
	}
}

// open returns the number of files that this process has open, and the number of its mappings of test files.
func open(t testing.TB) (n [2]int) {
	folder := "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		folder = "/dev/fd"
		entries, err = os.ReadDir(folder)
	}
	require.NoError(t, err)
	for _, entry := range entries {
		link, _ := os.Readlink(filepath.Join(folder, entry.Name()))
		if !strings.HasPrefix(link, "anon_inode:") { // Go's runtime opens those when it first waits for a file
			n[0]++
		}
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		n[1] = strings.Count(string(maps), "/"+filepath.Base(os.TempDir())+"/Test")
	}
	return n
}

func TestAFileThatBecomesShorter(t *testing.T) {
	page := int64(os.Getpagesize())
	path := write(t, "model", contents(t, 3*page, "x", "y"))
	f := must.Own(files.Open(path))(t)
	require.NoError(t, f.Verify())
	size := must.Do(os.Stat(path))(t).Size()
	x := must.Do(f.Find("x"))(t)
	require.NoError(t, os.Truncate(path, x.Offset+x.Size+1))
	must.Do(f.AppendBytes(nil, "x"))(t)
	dst, err := f.AppendBytes([]byte("+"), "y")
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.ErrorIs(t, err, files.ErrChanged)
	assert.EqualError(t, err, fmt.Sprintf("files: %s: tensor \"y\": the file ends at byte %d of %d: file changed while it was open: unexpected EOF", path, x.Offset+x.Size+1, size))
	assert.Equal(t, "+", string(dst))
	err = f.Verify()
	assert.ErrorIs(t, err, files.ErrChanged)
	assert.EqualError(t, err, fmt.Sprintf("files: %s: it had %d bytes when it was opened, but has %d now: file changed while it was open", path, size, x.Offset+x.Size+1))
}

func TestReadingAPageThatIsGoneIsAnError(t *testing.T) {
	page := int64(os.Getpagesize())
	for _, left := range []int64{0, 1, page, 2*page + 1} {
		path := write(t, "model", contents(t, 3*page, "x"))
		size := must.Do(os.Stat(path))(t).Size()
		err := files.ReadCut(path, left)
		assert.ErrorIs(t, err, files.ErrChanged)
		gone := (left + page - 1) / page * page
		assert.EqualError(t, err, fmt.Sprintf("byte %d of %d can no longer be read: file changed while it was open", gone, size))
	}
}

// The header has many pages, which disappear and reappear while it is read.
func TestAFileThatIsCutWhileItIsOpened(t *testing.T) {
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("tensor number %d", i)
	}
	whole := contents(t, 1, names...)
	path := write(t, "model", whole)
	end := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		file := must.Own(os.OpenFile(path, os.O_RDWR, 0))(t)
		for {
			select {
			case <-end:
				return
			default:
			}
			assert.NoError(t, file.Truncate(int64(len(whole)/3)))
			_, err := file.WriteAt([]byte(whole[len(whole)/3:]), int64(len(whole)/3))
			assert.NoError(t, err)
		}
	})
	opened, refused := 0, 0
	for begin := time.Now(); (opened == 0 || refused == 0) && time.Since(begin) < 10*time.Second || opened+refused < 100; {
		f, err := files.Open(path)
		if err != nil {
			refused++
			continue
		}
		opened++
		assert.NoError(t, f.Close())
	}
	close(end)
	wait.Wait()
	assert.Positive(t, refused)
}

func TestVerify(t *testing.T) {
	path := write(t, "model", contents(t, 3, "x"))
	f := must.Own(files.Open(path))(t)
	require.NoError(t, f.Verify())
	replacement := write(t, "model", contents(t, 4, "x"))
	require.NoError(t, os.Rename(replacement, path), "another file of the name")
	require.NoError(t, f.Verify())
	assert.Equal(t, "\x00\x01\x02", string(must.Do(f.AppendBytes(nil, "x"))(t)))

	f = must.Own(files.Open(path))(t)
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)))
	err := f.Verify()
	assert.ErrorIs(t, err, files.ErrChanged)
	assert.ErrorContains(t, err, "last written at ")

	var none *files.File
	assert.ErrorIs(t, none.Verify(), dlpack.ErrNull)
	assert.NoError(t, none.Close())
	assert.Empty(t, none.Entries())
	must.Fail(none.Find("x"))(t, dlpack.ErrNull)
}

// useTensor uses a tensor of a file. Without cgo it is nil.
var useTensor func(t testing.TB, f *files.File)

func TestManyOpeningsLeaveNothing(t *testing.T) {
	path := write(t, "model", contents(t, 3, "x", "y"))
	n := 100_000
	if testing.Short() {
		n = 2000
	}
	var before [2]int
	for i := range n {
		if i == 1 { // the first Open may create descriptors that the process keeps, such as the one through which deleters wake Go
			before = open(t)
		}
		f, err := files.Open(path)
		require.NoError(t, err)
		must.Do(f.AppendBytes(nil, "x"))(t)
		if useTensor != nil {
			useTensor(t, f)
		}
		require.NoError(t, f.Close())
	}
	assert.Equal(t, before, open(t))
}
