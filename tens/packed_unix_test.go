//go:build unix && (amd64 || arm64)

package tens_test

import (
	"math"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

// A frame of more than 4 GiB - 1 has no packed form. The frame of this test takes address space, but no memory.
func TestFramesBeyondFourGiBAreRefused(t *testing.T) {
	huge := must.Do(syscall.Mmap(-1, 0, 1<<32, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	defer func() { require.NoError(t, syscall.Munmap(huge)) }()

	m := tens.Message{Parts: [][]byte{nil, huge}}
	_, err := m.PackedSize()
	assert.EqualError(t, err, "tens: frame 3 of 4294967296 bytes: "+
		"frame too large for the packed form, which holds 4 GiB - 1; separate frames have no limit")
	out, err := m.AppendPacked([]byte("kept"))
	requireFault(t, tens.ErrFrameTooLarge, err)
	assert.Equal(t, "kept", string(out))
	_, err = tens.SizeFrames([][]byte{huge})
	requireFault(t, tens.ErrFrameTooLarge, err)
	out, err = tens.AppendFrames([]byte("kept"), [][]byte{huge})
	requireFault(t, tens.ErrFrameTooLarge, err)
	assert.Equal(t, "kept", string(out))
	_, err = (&tens.Message{Label: huge}).PackedSize()
	requireFault(t, tens.ErrFrameTooLarge, err)

	size := must.Do(tens.SizeFrames([][]byte{huge[:math.MaxUint32]}))(t)
	assert.Equal(t, math.MaxUint32+5, size)
	assert.Len(t, m.Encode(), 4, "the multi-part form has no such limit")
}
