//go:build cgo && unix && (amd64 || arm64)

package gguf_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/gguf"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// sparse returns a file of size bytes. Only the page with the header can be read.
func sparse(t *testing.T, header []byte, size int) []byte {
	data := must.Do(syscall.Mmap(-1, 0, size, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE))(t)
	t.Cleanup(func() { assert.NoError(t, syscall.Munmap(data)) })
	require.NoError(t, syscall.Mprotect(data[:os.Getpagesize()], syscall.PROT_READ|syscall.PROT_WRITE))
	copy(data, header)
	return data
}

func TestDecodeFileReadsNothingOfTheTensors(t *testing.T) {
	header := head(1, 0, text("x"), uint32(1), uint64(100<<30), uint32(gguf.I8), uint64(0))
	data := sparse(t, header, 100<<30+64)
	f := must.Do(gguf.DecodeFile(data))(t)
	assert.Len(t, f.Tensors[0].Data, 100<<30)
	x := must.Own(f.Tensors[0].Tensor())(t)
	assert.Equal(t, int64(100<<30), x.NumBytes())
	amplification.Require(t, len(header), multiple, 0, func() func() { _, _ = gguf.DecodeFile(data); return nil })
}

// The sizes that a header claims must not exceed the limit, even if the file has room for them.
func TestDecodeFileReadsNothingBeyondTheLimit(t *testing.T) {
	for name, header := range map[string][]byte{
		"tensors":         head(1<<28, 0),
		"metadata":        head(0, 1<<28),
		"a long key":      head(0, 1, uint64(1<<30)),
		"a long string":   head(0, 1, text("k"), ofString, uint64(1<<30)),
		"a long array":    head(0, 1, text("k"), ofArray, array{ofUint32, 1 << 28}),
		"many strings":    head(0, 1, text("k"), ofArray, array{ofString, 1 << 28}),
		"a first string":  head(0, 1, text("k"), ofArray, array{ofString, 1 << 22}, uint64(1<<30)),
		"a first array":   head(0, 1, text("k"), ofArray, array{ofArray, 1 << 22}, array{ofUint8, 1 << 30}),
		"a first tensor":  head(1<<20, 0, uint64(1<<30)),
		"a first key":     head(0, 1<<20, uint64(1<<30)),
		"nested arrays":   head(0, 1, text("k"), ofArray, array{ofArray, 1}, array{ofUint8, 1 << 30}),
		"a tensor's name": head(1, 0, uint64(1<<30)),
	} {
		t.Run(name, func(t *testing.T) {
			data := sparse(t, header, 100<<30)
			amplification.Require(t, len(header), multiple, 0, func() func() { must.Fail(gguf.DecodeFile(data))(t, gguf.ErrLimit); return nil })
		})
	}
}
