package npy

import (
	"archive/zip"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// zipfile of Python wrote this directory, for members that are too large for a test.
func TestDirectoriesOfLargeMembersAreThoseOfPython(t *testing.T) {
	var data []byte
	for _, m := range []written{
		{"small.npy", 100, 0, 100}, {"large.npy", 3 << 30, 150, 0}, {"behind.npy", 200, 3 << 30, 200}, {"both.npy", 5 << 32, 3<<30 + 300, 0},
	} {
		data = m.appendEntry(data)
	}
	want := must.Do(os.ReadFile("testdata/directory.bin"))(t)
	assert.Equal(t, want, appendEnd(data, 4, uint64(len(data)), 0))
}

// More than 65535 members need the zip64 end of the directory, which other programs read too.
func TestDirectoriesOfManyMembersAreReadBack(t *testing.T) {
	const most = 1<<16 + 1
	content := append(must.Do(AppendHeader(nil, dlpack.Int8, nil, false))(t), 7)
	var data, directory []byte
	for i := range most {
		m := written{name: fmt.Sprint(i, ".npy"), size: uint64(len(content)), offset: uint64(len(data)), crc: crc32.ChecksumIEEE(content)}
		data = append(m.appendLocal(data), content...)
		directory = m.appendEntry(directory)
	}
	start := len(data)
	data = appendEnd(append(data, directory...), most, uint64(len(directory)), uint64(start))
	f := must.Do(DecodeZip(data))(t)
	require.Len(t, f.Tensors, most)
	assert.Equal(t, []byte{7}, must.Do(f.Find("65536"))(t).Data)
	r := must.Do(zip.NewReader(bytes.NewReader(data), int64(len(data))))(t)
	require.Len(t, r.File, most)
	assert.Equal(t, content, must.Do(io.ReadAll(must.Do(r.File[most-1].Open())(t)))(t))

	for _, at := range []int{len(data) - 34, len(data) - 66} { // the place of the zip64 end, and its number of entries
		data[at]++
		must.Fail(DecodeZip(data))(t, ErrZip)
		data[at]--
	}
}
