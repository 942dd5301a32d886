//go:build cgo

package npy_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestArchivesOfNumPyAreRead(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, archive := range m.Archives {
			t.Run(archive.File, func(t *testing.T) {
				data := m.File(t, archive.File)
				source := inC(t, data)
				f := must.Do(npy.DecodeZip(data))(t)
				require.Len(t, f.Tensors, len(archive.Names))
				for i, name := range archive.Names {
					require.Equal(t, name, f.Tensors[i].Name)
					v := must.Do(f.Find(name))(t)
					assert.Same(t, &f.Tensors[i], v)
					array, ok := m.array(path.Base(name) + ".npy")
					if !ok {
						require.Error(t, v.Err)
						must.Fail(v.Tensor())(t, v.Err)
						must.Fail(v.TensorFrom(source))(t, v.Err)
						continue
					}
					require.NoError(t, v.Err)
					assert.Equal(t, array.Type, v.Type)
					assert.Equal(t, strings.Contains(archive.File, "deflated"), v.Compressed)
					for where, x := range map[string]*dlpack.Tensor{"in Go": must.Own(v.Tensor())(t), "elsewhere": must.Own(v.TensorFrom(source))(t)} {
						assert.Equal(t, array.Hex, hex.EncodeToString(must.Do(x.AppendBytes(nil))(t)), where)
						assert.Equal(t, array.Shape, x.Shape()[:len(array.Shape)], where)
						copied := v.Compressed || v.BigEndian
						assert.Equal(t, copied, x.Flags()&dlpack.IsCopied != 0, where)
						assert.Equal(t, where == "in Go" && !copied, x.ReadOnly(), where)
						if where == "elsewhere" && !copied && v.Size > 0 {
							assert.Equal(t, source.Data()+uintptr(v.Offset), x.Data())
						}
					}
				}
				must.Fail(f.Find("no such name"))(t, elements.ErrNoName)
			})
		}
	}
	var none *npy.File
	must.Fail(none.Find(""))(t, elements.ErrNil)
	var nothing *npy.View
	must.Fail(nothing.Tensor())(t, elements.ErrNil)
}

func TestMembersThatHaveNoTensorSayWhy(t *testing.T) {
	for _, m := range manifests(t) {
		f := must.Do(npy.DecodeZip(m.File(t, "refused.npz")))(t)
		for _, v := range f.Tensors {
			if v.Name == "row" {
				require.NoError(t, v.Err)
			} else {
				require.ErrorIs(t, v.Err, elements.ErrDType, v.Name)
				assert.ErrorContains(t, v.Err, fmt.Sprintf("in \"%s.npy\": ", v.Name))
			}
		}
		text := must.Do(must.Do(npy.DecodeZip(m.File(t, "text.npz")))(t).Find("notes.txt"))(t)
		require.ErrorIs(t, text.Err, npy.ErrMagic)
	}
}

// named returns the arrays of an archive of NumPy as tensors.
func named(t *testing.T, data []byte) (all []npy.Named) {
	f := must.Do(npy.DecodeZip(data))(t)
	for i := range f.Tensors {
		v := &f.Tensors[i]
		var options []npy.DecodeOption
		if v.Type == "<V2" {
			options = append(options, npy.As(dlpack.BFloat16))
		}
		all = append(all, npy.Named{Name: v.Name, Tensor: must.Own(v.Tensor(options...))(t)})
	}
	return all
}

func TestArchivesAreWrittenAsNumPyWritesThem(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, file := range []string{"stored.npz", "none.npz"} {
			want := m.File(t, file)
			var out bytes.Buffer
			require.NoError(t, npy.WriteZip(&out, named(t, want)))
			assert.Equal(t, want, out.Bytes())
			for n := range want {
				require.ErrorIs(t, npy.WriteZip(&repotest.FailingWriter{N: n, Err: io.ErrClosedPipe}, named(t, want)), io.ErrClosedPipe)
			}
		}
	}
}

func TestArchivesThatCannotBeWritten(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]int8{1}))(t)
	tests := []struct {
		name    string
		tensors []npy.Named
		want    error
	}{
		{"a path to elsewhere", []npy.Named{{"../x", x}}, elements.ErrName},
		{"an absolute path", []npy.Named{{"/x", x}}, elements.ErrName},
		{"NUL", []npy.Named{{"x\x00", x}}, elements.ErrName},
		{"a backslash", []npy.Named{{`..\x`, x}}, elements.ErrName},
		{"not UTF-8", []npy.Named{{"\xff", x}}, elements.ErrName},
		{"64 KiB", []npy.Named{{strings.Repeat("x", 65532), x}}, elements.ErrName},
		{"a name twice", []npy.Named{{"x", x}, {"y", x}, {"x", x}}, elements.ErrDuplicate},
		{"a closed tensor", []npy.Named{{"x", x}, {"y", nil}}, dlpack.ErrClosed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			require.ErrorIs(t, npy.WriteZip(&out, test.tensors), test.want)
			assert.Zero(t, out.Len(), "nothing is written")
		})
	}
	require.ErrorIs(t, npy.WriteZip(nil, nil), elements.ErrNil)
	var out bytes.Buffer
	require.NoError(t, npy.WriteZip(&out, []npy.Named{{strings.Repeat("x", 65531), x}, {"", x}}))
	assert.Len(t, must.Do(npy.DecodeZip(out.Bytes()))(t).Tensors, 2)
}

// Package archive/zip writes sizes and checksums after the members.
func TestArchivesOfGoAreReadAndOursByGo(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]int8{7}))(t)
	content := must.Do(npy.AppendTensor(nil, x))(t)
	var theirs, ours bytes.Buffer
	w := zip.NewWriter(&theirs)
	for i, method := range []uint16{zip.Store, zip.Deflate} {
		must.Do(must.Do(w.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i, ".npy"), Method: method}))(t).Write(content))(t)
	}
	require.NoError(t, w.Close())
	require.NoError(t, npy.WriteZip(&ours, []npy.Named{{"0", x}, {"1", x}}))
	for _, data := range [][]byte{theirs.Bytes(), ours.Bytes()} {
		f := must.Do(npy.DecodeZip(data))(t)
		require.Len(t, f.Tensors, 2)
		for i := range f.Tensors {
			y := must.Own(f.Tensors[i].Tensor())(t)
			assert.Equal(t, int8(7), must.Do(dlpack.At[int8](y, 0))(t))
		}
	}
	r := must.Do(zip.NewReader(bytes.NewReader(ours.Bytes()), int64(ours.Len())))(t)
	require.Len(t, r.File, 2)
	assert.Equal(t, content, must.Do(io.ReadAll(must.Do(r.File[1].Open())(t)))(t))
}

// part is a member of a test archive.
type part struct {
	name, content string
	inflated      int // the size when it is inflated, if it is deflated
	extra         string
}

// archive returns a zip file of the given members with checksums of 0, and the indices of its directory and of the end
// of the directory.
func archive(parts ...part) (data []byte, start, end int) {
	le := binary.LittleEndian
	var directory []byte
	for _, p := range parts {
		method, size, at := uint16(0), uint32(len(p.content)), len(data)
		if p.inflated > 0 {
			method, size = 8, uint32(p.inflated)
		}
		numbers := func(dst []byte) []byte {
			dst = le.AppendUint16(append(dst, 20, 0, 0, 0), method)
			dst = append(dst, 0, 0, 33, 0, 0, 0, 0, 0)
			dst = le.AppendUint32(le.AppendUint32(dst, uint32(len(p.content))), size)
			return le.AppendUint16(le.AppendUint16(dst, uint16(len(p.name))), uint16(len(p.extra)))
		}
		data = append(numbers(append(data, "PK\x03\x04"...)), p.name+p.extra+p.content...)
		directory = numbers(append(directory, "PK\x01\x02\x14\x03"...))
		directory = append(le.AppendUint32(append(directory, make([]byte, 10)...), uint32(at)), p.name+p.extra...)
	}
	start = len(data)
	data = append(data, directory...)
	end = len(data)
	data = append(data, "PK\x05\x06\x00\x00\x00\x00"...)
	data = le.AppendUint16(le.AppendUint16(data, uint16(len(parts))), uint16(len(parts)))
	return append(le.AppendUint32(le.AppendUint32(data, uint32(len(directory))), uint32(start)), 0, 0), start, end
}

func TestMalformedArchivesAreRefusedAtTheirByte(t *testing.T) {
	le := binary.LittleEndian
	content := string(file(dict("'<f4'", "(3,)"), 12))
	one := func(p part) func() ([]byte, int, int) { return func() ([]byte, int, int) { return archive(p) } }
	plain := one(part{name: "x.npy", content: content})
	two := func() ([]byte, int, int) {
		return archive(part{name: "x.npy", content: content}, part{name: "y.npy", content: content})
	}
	first := 35 + len(content) // the beginning of the second member
	bytesOf := func(at int, text string) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) int { copy(b[d+at:], text); return d + at }
	}
	entry16 := func(at int, to uint16) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) int { le.PutUint16(b[d+at:], to); return d + at }
	}
	entry32 := func(at int, to uint32) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) int { le.PutUint32(b[d+at:], to); return d + at }
	}
	local16 := func(at int, to uint16) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) int { le.PutUint16(b[at:], to); return at }
	}
	local32 := func(at int, to uint32) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) int { le.PutUint32(b[at:], to); return at }
	}
	end16 := func(at int, to uint16, where int) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) int { le.PutUint16(b[e+at:], to); return e + where }
	}
	end32 := func(at int, to uint32) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) int { le.PutUint32(b[e+at:], to); return e }
	}
	at := func(at int) func([]byte, int, int) int { return func([]byte, int, int) int { return at } }
	then := func(changes ...func(b []byte, d, e int) int) func(b []byte, d, e int) int {
		return func(b []byte, d, e int) (at int) {
			for _, c := range changes {
				at = c(b, d, e)
			}
			return at
		}
	}
	zip64 := func(numbers ...uint64) string {
		extra := []byte{1, 0, byte(8 * len(numbers)), 0}
		for _, n := range numbers {
			extra = le.AppendUint64(extra, n)
		}
		return string(extra)
	}
	shapes := string(deflate(t, string(file(dict("'<f4'", "(4,)"), 12))))
	tests := []struct {
		name   string
		make   func() ([]byte, int, int)
		change func(b []byte, d, e int) (at int)
		want   error
	}{
		{"an archive in several parts", plain, end16(4, 1, 4), npy.ErrZip},
		{"a directory in several parts", plain, end16(8, 0, 4), npy.ErrZip},
		{"a comment beyond the file", plain, end16(20, 5, 20), npy.ErrZip},
		{"fewer entries than the directory has", plain, then(end16(8, 0, 0), end16(10, 0, 0), func(_ []byte, d, _ int) int { return d }), npy.ErrZip},
		{"more entries than the directory has", plain, then(end16(8, 2, 0), end16(10, 2, 0)), npy.ErrZip},
		{"a directory that is too long", plain, end32(12, 52), npy.ErrZip},
		{"a directory of 4 GiB", plain, end32(12, math.MaxUint32), npy.ErrZip},
		{"a directory beyond the file", plain, end32(16, math.MaxUint32), npy.ErrZip},
		{"a directory at the beginning", plain, end32(16, 0), npy.ErrZip},

		{"no entry", plain, bytesOf(0, "PK\x03\x04"), npy.ErrZip},
		{"a name that is longer than the directory", plain, entry16(28, 6), npy.ErrZip},
		{"an extra field that is longer than the directory", plain, then(entry16(30, 1), bytesOf(28, "")), npy.ErrZip},
		{"a comment that is longer than the directory", plain, then(entry16(32, math.MaxUint16), bytesOf(28, "")), npy.ErrZip},
		{"encrypted", plain, entry16(8, 1), npy.ErrMethod},
		{"patched", plain, entry16(8, 1<<5), npy.ErrMethod},
		{"bzip2", plain, entry16(10, 12), npy.ErrMethod},
		{"another part", plain, entry16(34, 1), npy.ErrZip},
		{"sizes of a stored member that differ", plain, then(entry32(24, 7), func(_ []byte, d, _ int) int { return d + 20 }), npy.ErrZip},
		{"a member that begins behind the directory", plain, entry32(42, 1<<31), elements.ErrTruncated},
		{"a member that begins in the directory", plain, func(b []byte, d, e int) int { return entry32(42, uint32(d-29))(b, d, e) }, elements.ErrTruncated},
		{"a member that ends behind the directory", plain, then(entry32(24, 1<<30), entry32(20, 1<<30)), elements.ErrTruncated},
		{"a member of one byte more", plain, then(entry32(24, uint32(len(content)+1)), entry32(20, uint32(len(content)+1)), local32(22, uint32(len(content)+1)),
			local32(18, uint32(len(content)+1)), at(26)), elements.ErrTruncated},
		{"a member of 4 GiB less a byte, without zip64", plain, then(entry32(24, math.MaxUint32), entry32(20, math.MaxUint32)), elements.ErrTruncated},

		{"no header", plain, local32(0, 0), npy.ErrZip},
		{"other flags", plain, local16(6, 8), npy.ErrZip},
		{"another method", plain, local16(8, 8), npy.ErrZip},
		{"another checksum", plain, local32(14, 7), npy.ErrZip},
		{"another size in the file", plain, local32(18, 7), npy.ErrZip},
		{"another size", plain, local32(22, 7), npy.ErrZip},
		{"another name", plain, then(local16(30, 'X'), at(30)), npy.ErrZip},
		{"a shorter name", plain, then(local16(26, 4), at(30)), npy.ErrZip},
		{"a name that is longer than the archive", plain, local16(26, math.MaxUint16), elements.ErrTruncated},
		{"sizes to come, and none comes", plain, then(local16(6, 8), entry16(8, 8), at(first)), npy.ErrZip},

		{"one name for two members", two, then(bytesOf(46+51, "x"), func(b []byte, d, _ int) int { b[first+30] = 'x'; return d + 51 }), elements.ErrDuplicate},
		{"a member in another", nested, at(35), npy.ErrZip},

		{"a path to elsewhere", one(part{name: "../x.npy", content: content}), bytesOf(46, ""), elements.ErrName},
		{"a path back", one(part{name: "a/../x.npy", content: content}), bytesOf(46, ""), elements.ErrName},
		{"an absolute path", one(part{name: "/x.npy", content: content}), bytesOf(46, ""), elements.ErrName},
		{"a path of Windows", one(part{name: `..\x.npy`, content: content}), bytesOf(46, ""), elements.ErrName},
		{"a folder", one(part{name: "x/", content: ""}), bytesOf(46, ""), elements.ErrName},
		{"no name", one(part{content: content}), bytesOf(46, ""), elements.ErrName},
		{"NUL in a name", one(part{name: "x.npy\x00.txt", content: content}), bytesOf(46, ""), elements.ErrName},
		{"a name that is not said to be UTF-8", one(part{name: "ä.npy", content: content}), bytesOf(46, ""), elements.ErrName},
		{"a name that is not UTF-8", one(part{name: "\xff.npy", content: content}), then(entry16(8, 1<<11), bytesOf(46, "")), elements.ErrName},
		{"a second name", one(part{name: "x.npy", content: content, extra: "up\x05\x00\x01abcd"}), bytesOf(51, ""), elements.ErrName},

		{"an extra field that is cut", one(part{name: "x.npy", content: content, extra: "abc"}), bytesOf(51, ""), npy.ErrZip},
		{"an extra field that is too long", one(part{name: "x.npy", content: content, extra: "ab\x01\x00"}), bytesOf(51, ""), npy.ErrZip},
		{"zip64 of two bytes", one(part{name: "x.npy", content: content, extra: "\x01\x00\x02\x00ab"}), bytesOf(51, ""), npy.ErrZip},
		{"zip64 twice", one(part{name: "x.npy", content: content, extra: zip64() + zip64()}), bytesOf(55, ""), npy.ErrZip},
		{"zip64 that differs", one(part{name: "x.npy", content: content, extra: zip64(7, 8, 9)}), bytesOf(51, ""), npy.ErrZip},
		{"2^63 bytes", one(part{name: "x.npy", content: content, extra: zip64(1<<63, 1<<63)}), then(entry32(24, math.MaxUint32), entry32(20, math.MaxUint32)), elements.ErrTruncated},
		{"2^64 less 30 bytes", one(part{name: "x.npy", content: content, extra: zip64(1<<64-30, 1<<64-30)}), then(entry32(24, math.MaxUint32), entry32(20, math.MaxUint32)), elements.ErrTruncated},
		{"at byte 2^64 less 1", one(part{name: "x.npy", content: content, extra: zip64(math.MaxUint64)}), entry32(42, math.MaxUint32), elements.ErrTruncated},

		{"an array that is cut", one(part{name: "x.npy", content: content[:len(content)-1]}), func(_ []byte, d, _ int) int { return d }, elements.ErrTruncated},
		{"bytes after an array", one(part{name: "x.npy", content: content + "x"}), func(_ []byte, d, _ int) int { return d - 1 }, npy.ErrTrailing},
		{"a negative size", one(part{name: "x.npy", content: string(file(dict("'<f4'", "(-3,)"), 12))}), at(35 + 61), layout.ErrNegative},
		{"no array under the name of one", one(part{name: "x.npy", content: "text"}), at(35), npy.ErrMagic},
		{"an empty member", one(part{name: "x.npy"}), at(35), elements.ErrTruncated},
		{"nothing that is deflated", one(part{name: "x.npy", content: "\xff\xff", inflated: 140}), at(35), npy.ErrZip},
		{"deflated bytes that end in the header", one(part{name: "x.npy", content: string(deflate(t, content[:50])), inflated: len(content)}), at(35), npy.ErrZip},
		{"a deflated member that is too small for its shape", one(part{name: "x.npy", content: shapes, inflated: len(content)}), at(35), elements.ErrTruncated},
		{"a deflated member that says more than it can become", one(part{name: "x.npy", content: shapes, inflated: 1032*len(shapes) + 1}),
			func(_ []byte, d, _ int) int { return d + 24 }, npy.ErrZip},
		{"a deflated member that says less", one(part{name: "x.npy", content: shapes, inflated: 11}), at(35), elements.ErrTruncated},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data, start, end := test.make()
			at := test.change(data, start, end)
			_, err := npy.DecodeZip(data)
			var fail *elements.Error
			require.ErrorAs(t, err, &fail)
			require.ErrorIs(t, err, test.want)
			assert.Equal(t, int64(at), fail.Offset, err)
			assert.Less(t, len(err.Error()), 400)
		})
	}
	for _, data := range [][]byte{nil, []byte("PK\x05\x06"), file(dict("'<f4'", "(3,)"), 12)} {
		must.Fail(npy.DecodeZip(data))(t, npy.ErrZip)
	}
	for _, make := range []func() ([]byte, int, int){plain, two} {
		data, _, _ := make()
		must.Do(npy.DecodeZip(data))(t)
	}
}

// nested returns an archive with a member y.npy that lies in the bytes of the member x.npy.
func nested() ([]byte, int, int) {
	content := string(file(dict("'<f4'", "(3,)"), 12))
	inner, begin, _ := archive(part{name: "y.npy", content: content})
	outer, start, end := archive(part{name: "x.npy", content: string(inner[:begin])}, part{name: "y.npy", content: content})
	binary.LittleEndian.PutUint32(outer[end-51+42:], 35)
	return outer, start, end
}

// deflate returns deflated bytes.
func deflate(t *testing.T, content string) []byte {
	var out bytes.Buffer
	w := must.Do(flate.NewWriter(&out, flate.BestCompression))(t)
	must.Do(io.WriteString(w, content))(t)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestEachTruncationOfAnArchiveIsRefused(t *testing.T) {
	for _, m := range manifests(t) {
		for _, archive := range m.Archives {
			data := m.File(t, archive.File)
			for n := range data {
				_, err := npy.DecodeZip(data[:n:n])
				require.ErrorIs(t, err, npy.ErrZip, "%s, %d", archive.File, n)
			}
		}
	}
}

// If bytes are copied, a change of any bit of a member is noticed.
func TestChecksumsAreComparedWhereMembersAreCopied(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, file := range []string{"stored.npz", "deflated.npz", "piped.npz", "piped-deflated.npz"} {
			for i := range must.Do(npy.DecodeZip(m.File(t, file)))(t).Tensors {
				data := m.File(t, file)
				f := must.Do(npy.DecodeZip(data))(t)
				v := &f.Tensors[i]
				options := npy.Align(64)
				if v.Alignment() >= 64 {
					continue
				}
				for bit := range 8 * max(v.Size, 1) {
					at := v.Offset + bit/8
					data[at] ^= 1 << (bit % 8)
					x, err := v.Tensor(options)
					if !errors.Is(err, npy.ErrChecksum) && !(v.Compressed && errors.Is(err, npy.ErrZip)) && v.Size > 0 {
						t.Fatalf("%s, %s, bit %d: %v, %v", file, v.Name, bit, x, err)
					}
					x.Close()
					data[at] ^= 1 << (bit % 8)
					if v.Compressed && bit > 100 {
						break
					}
				}
				must.Own(v.Tensor(options))(t)
			}
		}
	}
}

func TestAFileThatHasBecomeShorterIsAnError(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, name := range []string{"stored.npz", "deflated.npz"} {
			data := m.File(t, name)
			f := must.Do(npy.DecodeZip(data))(t)
			for i := range f.Tensors {
				short := must.Own(dlpack.FromSlice(data[:f.Tensors[i].Offset]))(t)
				if f.Tensors[i].Size > 0 {
					must.Fail(f.Tensors[i].TensorFrom(short))(t, elements.ErrTruncated)
				}
			}
		}
		data := m.File(t, "row.npy")
		v := must.Do(must.Do(npy.DecodeFile(data))(t).Find(""))(t)
		must.Fail(v.TensorFrom(must.Own(dlpack.FromSlice(data[:len(data)-1]))(t)))(t, elements.ErrTruncated)
	}
}
