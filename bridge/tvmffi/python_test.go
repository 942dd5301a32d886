//go:build cgo

package tvmffi

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The python3 in PATH may be a script whose child processes outlive it and hold its output.
func TestAPythonThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	never := filepath.Join(dir, "never")
	require.NoError(t, syscall.Mkfifo(never, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\ncat '"+never+"'\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Cleanup(func() { // lets cat end
		if f, err := os.OpenFile(never, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	})
	defer func(before time.Duration) { patience = before }(patience)
	patience = 100 * time.Millisecond
	_, err := pythonFolder("tvm_ffi")
	assert.ErrorContains(t, err, "python3 failed: ")
}

// The system's loader would wait until somebody writes to the FIFO. It would cut the path at the NUL and load the file
// with that shorter name.
func TestWhatTheLoaderCannotHaveIsNotLoaded(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo.so")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for path, why := range map[string]string{fifo: "is not a regular file", "/dev/zero": "is not a regular file", "library.so\x00": "contains a NUL"} {
		_, err := LoadModule(path)
		assert.ErrorIs(t, err, ErrLibrary)
		assert.ErrorContains(t, err, why)
		load := func(file string) error {
			t.Errorf("%q is loaded", file)
			return nil
		}
		assert.ErrorContains(t, tvmFFI.Load(path, load), why)
	}
}
