//go:build cgo

package core

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// A spread says where the elements of the source, or of the destination, lie in a slice of bytes.
type spread struct {
	steps []int64 // in bytes
	start int64
	size  int64 // bytes from the beginning of the slice on
}

// spreadOf returns a random spread of a shape: in any order, reversed, with gaps, and unaligned. In a source,
// dimensions may also have a stride of 0, or a stride so small that elements overlap.
func spreadOf(r *rand.Rand, shape []int64, item int64, source bool) spread {
	s := spread{steps: make([]int64, len(shape)), start: 64 + r.Int64N(2)*r.Int64N(70)}
	step, low, high := item, int64(0), item
	if r.IntN(4) == 0 {
		step *= 1 + r.Int64N(5)
	}
	for _, d := range r.Perm(len(shape)) {
		s.steps[d] = step
		switch {
		case source && r.IntN(12) == 0:
			s.steps[d] = 0
		case source && r.IntN(12) == 0:
			s.steps[d] = item * r.Int64N(3)
		}
		if r.IntN(5) == 0 {
			s.steps[d] = -s.steps[d]
		}
		if reach := (shape[d] - 1) * s.steps[d]; reach < 0 {
			low += reach
		} else {
			high += reach
		}
		step *= max(shape[d], 1)
		if r.IntN(4) == 0 {
			step += item * r.Int64N(4)
		}
		if r.IntN(12) == 0 {
			step += r.Int64N(4)
		}
	}
	s.start -= low
	s.size = s.start + high + 64
	return s
}

// shapeOf returns a random shape: usually a small one, sometimes one that fills tiles.
func shapeOf(r *rand.Rand) []int64 {
	shape := make([]int64, r.IntN(6))
	most := int64(7)
	if len(shape) > 3 {
		most = 4
	}
	if r.IntN(40) == 0 {
		shape, most = shape[:min(len(shape), 2)], 200
	}
	for d := range shape {
		shape[d] = 1 + r.Int64N(most)
		if r.IntN(200) == 0 {
			shape[d] = 0
		}
	}
	if most == 200 && len(shape) == 2 && r.IntN(4) == 0 {
		shape = slices.Insert(shape, r.IntN(3), 1+r.Int64N(4))
		shape[r.IntN(3)] = 1 + r.Int64N(4)
	}
	return shape
}

// each calls f with the byte offsets of every element on both sides.
func each(shape []int64, a, b spread, f func(a, b int64)) {
	if slices.Contains(shape, 0) {
		return
	}
	index := make([]int64, len(shape))
	for {
		at, bt := a.start, b.start
		for d, i := range index {
			at += i * a.steps[d]
			bt += i * b.steps[d]
		}
		f(at, bt)
		d := len(shape) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

var itemSizes = []int64{1, 1, 2, 2, 4, 4, 4, 8, 8, 16, 16, 3, 5, 6, 12, 24, 32, 64, 100}

// checkCopy copies with each kind of instructions, and compares all of the destination's memory, including guards and gaps, with
// the result of copying one element at a time.
func checkCopy(t testing.TB, shape []int64, item int64, from, to spread, src []byte) {
	t.Helper()
	want := bytes.Repeat([]byte{0xA5}, int(to.size))
	each(shape, to, from, func(to, from int64) { copy(want[to:to+item], src[from:]) })
	got := make([]byte, to.size)
	for _, means := range []struct {
		plain bool
		whole int64
	}{{plain: true}, {}, {whole: 1 << 40}} { // plain C, vector registers, and stores that bypass the caches
		for i := range got {
			got[i] = 0xA5
		}
		copyPart(means.plain, means.whole, unsafe.Pointer(&got[to.start]), to.steps, unsafe.Pointer(&src[from.start]), from.steps, shape, item)
		if !bytes.Equal(want, got) {
			require.Fail(t, "another result", "means %v, shape %v, item %d, destination %v, source %v", means, shape, item, to, from)
		}
	}
}

func TestCopiesEqualThoseOfOneElementAtATime(t *testing.T) {
	cases := 100_000
	if testing.Short() {
		cases /= 10
	}
	r := rand.New(rand.NewPCG(5, 4))
	src := make([]byte, 0)
	for range cases {
		shape, item := shapeOf(r), itemSizes[r.IntN(len(itemSizes))]
		if len(shape) > 1 && slices.Max(shape) > 100 && item > 32 {
			item = 4
		}
		from, to := spreadOf(r, shape, item, true), spreadOf(r, shape, item, false)
		for int64(len(src)) < from.size {
			src = append(src, byte(r.Uint32()))
		}
		checkCopy(t, shape, item, from, to, src)
	}
}

// Every loop copies all sizes around the size of its blocks, to every alignment of the destination.
func TestTransposesOfEverySize(t *testing.T) {
	src := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for _, item := range []int64{1, 2, 4, 8, 16} {
		line := 64 / item
		for _, rows := range []int64{1, 2, 3, 4, 5, line - 1, line, line + 1, 2 * line, 2*line + 3, 5*line + 2} {
			for _, columns := range []int64{2, 3, 4, 5, line, line + 3, 2*line + 1, 4 * line} {
				for _, gap := range []int64{0, 1, line} {
					for _, off := range []int64{0, item, 32, 3 * item, 1} {
						shape := []int64{columns, max(rows, 1)}
						from := spread{steps: []int64{item, (columns + gap) * item}, start: 64}
						if gap == line {
							from.steps[1] = 2048 // for which small planes of large items go through vector registers, too
						}
						to := spread{steps: []int64{(max(rows, 1) + gap) * item, item}, start: 64 + off}
						to.size = to.start + columns*to.steps[0] + 64
						checkCopy(t, shape, item, from, to, src)
					}
				}
			}
		}
	}
}

// Lines with steps of every width, forwards and backwards, and of every length near the length of a block.
func TestGathersOfEveryStep(t *testing.T) {
	src := make([]byte, 1<<16)
	for i := range src {
		src[i] = byte(i * 7 / 3)
	}
	for _, item := range []int64{1, 2, 4, 8, 16, 3} {
		for step := int64(-6); step <= 6; step++ {
			for _, count := range []int64{2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200} {
				for _, off := range []int64{0, 1, item} {
					from := spread{steps: []int64{step * item}, start: 1 << 15}
					to := spread{steps: []int64{item}, start: 64 + off, size: 64 + off + count*item + 64}
					checkCopy(t, []int64{count}, item, from, to, src)
				}
			}
		}
	}
}

// A gather must not read memory before the first or after the last element. The source is a whole slice, around which
// AddressSanitizer detects accesses.
func TestGathersStayInsideTheirSource(t *testing.T) {
	for _, item := range []int64{1, 2, 4, 8} {
		for _, step := range []int64{-4, -3, -2, -1, 2, 3, 4} {
			for count := int64(2); count < 150; count += 7 {
				span := max(step, -step)*(count-1)*item + item
				src := make([]byte, span)
				from := spread{steps: []int64{step * item}}
				if step < 0 {
					from.start = span - item
				}
				to := spread{steps: []int64{item}, start: 64, size: 128 + count*item}
				checkCopy(t, []int64{count}, item, from, to, src)
			}
		}
	}
}

// Large copies on several goroutines copy every element once.
func TestLargeCopiesInParts(t *testing.T) {
	testmode.SkipLong(t)
	tests := []struct {
		name  string
		shape []int64
		order []int // of the destination, from the slowest dimension
	}{
		{"transpose", []int64{2100, 2050}, []int{1, 0}},
		{"runs", []int64{3, 1030, 1400}, []int{1, 0, 2}},
		{"a dimension of 3 is the slowest", []int64{1200, 1201, 3}, []int{2, 0, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			const item = 4
			count := int64(1)
			for _, n := range test.shape {
				count *= n
			}
			src, dst := make([]uint32, count), make([]uint32, count+2)
			for i := range src {
				src[i] = uint32(i)
			}
			from, to := make([]int64, len(test.shape)), make([]int64, len(test.shape))
			step := int64(item)
			for d := len(test.shape) - 1; d >= 0; d-- {
				from[d] = step
				step *= test.shape[d]
			}
			step = item
			for _, d := range slices.Backward(test.order) {
				to[d] = step
				step *= test.shape[d]
			}
			for _, parts := range []int64{2, 3, 7} {
				clear(dst)
				copyParts(parts, slices.Index(to, slices.Max(to)), unsafe.Pointer(&dst[1]), to, unsafe.Pointer(&src[0]), from, test.shape, item, count*item)
				require.Zero(t, dst[0])
				require.Zero(t, dst[count+1])
				each(test.shape, spread{steps: from}, spread{steps: to}, func(from, to int64) {
					if dst[1+to/item] != src[from/item] {
						require.Fail(t, "another element", "parts %d, at %d", parts, to)
					}
				})
			}
		})
	}
}

func TestLargeRunsOfBytes(t *testing.T) {
	for _, size := range []int64{0, 1, 4095, 32<<20 - 1, 32<<20 + 4097} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			src, dst := make([]byte, size+1), bytes.Repeat([]byte{0xA5}, int(size)+2)
			for i := range src {
				src[i] = byte(i % 251)
			}
			CopyBytes(unsafe.Pointer(&dst[1]), unsafe.Pointer(&src[0]), size)
			require.Equal(t, []byte{0xA5, 0xA5}, []byte{dst[0], dst[size+1]})
			require.True(t, bytes.Equal(src[:size], dst[1:size+1]))
		})
	}
}
