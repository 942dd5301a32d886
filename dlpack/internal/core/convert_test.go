//go:build cgo

package core

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/internal/scalar"
)

func numberType(code, bits uint8) scalar.Type { return scalar.Type{Code: code, Bits: bits} }

// All types of numbers, by the codes of dlpack.h.
var numberTypes = []scalar.Type{
	numberType(6, 8),                                                                                              // bool
	numberType(0, 2), numberType(0, 4), numberType(0, 8), numberType(0, 16), numberType(0, 32), numberType(0, 64), // int
	numberType(1, 2), numberType(1, 4), numberType(1, 8), numberType(1, 16), numberType(1, 32), numberType(1, 64), // uint
	numberType(2, 16), numberType(2, 32), numberType(2, 64), numberType(4, 16), // float, bfloat
	numberType(5, 32), numberType(5, 64), numberType(5, 128), // complex
	numberType(7, 8), numberType(8, 8), numberType(9, 8), numberType(10, 8), numberType(11, 8), numberType(12, 8), numberType(13, 8), numberType(14, 8),
	numberType(15, 6), numberType(16, 6), numberType(17, 4), // float8, float6, float4
}

func sizeOf(t scalar.Type) int { return int(t.Bits+7) / 8 }

func dtypeOf(t scalar.Type, lanes int) DataType {
	return DataType(t.Code) | DataType(t.Bits)<<8 | DataType(lanes)<<16
}

// widened returns the numbers of all codes of a type of at most 16 bits, as float64.
func widened(t scalar.Type) []float64 {
	raw := scalar.Convert(numberType(2, 64), t, codesOf(t))
	return unsafe.Slice((*float64)(unsafe.Pointer(&raw[0])), len(raw)/8)
}

// codesOf returns all codes of a type of at most 16 bits.
func codesOf(t scalar.Type) (data []byte) {
	if sizeOf(t) == 1 {
		for code := range 256 {
			data = append(data, byte(code))
		}
		return data
	}
	for code := range 1 << 16 {
		data = binary.LittleEndian.AppendUint16(data, uint16(code))
	}
	return data
}

// hardFloats returns the float64 numbers at which a rule changes: the numbers of all narrower floats, the midpoints
// between them, and the limits of the integers.
func hardFloats(r *rand.Rand) (hard []float64) {
	for _, t := range numberTypes {
		if sizeOf(t) > 2 || t.Code < 2 || t.Code == 5 || t.Code == 6 {
			continue
		}
		all := widened(t)
		slices.Sort(all)
		all = slices.Compact(all)
		for i, x := range all {
			hard = append(hard, x)
			if i > 0 {
				hard = append(hard, all[i-1]/2+x/2)
			}
		}
		most := slices.Max(all)
		if math.IsInf(most, 1) {
			most = all[len(all)-2]
		}
		for _, x := range []float64{most * 1.0625, most * 1.125, most * 1.25, most * 1.5, most * 2} {
			hard = append(hard, x, -x)
		}
	}
	for e := range 65 {
		x := math.Ldexp(1, e)
		for _, y := range []float64{x, x - 1, x - 0.5, x + 0.5, x + 1, x - 2, x + 2} {
			hard = append(hard, y, -y)
		}
	}
	for _, e := range []int{-1074, -1073, -1022, -1023, -150, -149, -148, -127, -126, 127, 128, 1023} {
		x := math.Ldexp(1, e)
		hard = append(hard, x, -x, 1.5*x, -1.5*x, math.Nextafter(2*x, 0))
	}
	for range 4000 { // in the middle between two float32
		x := float64(math.Float32frombits(r.Uint32()))
		hard = append(hard, x+math.Ldexp(1, int(math.Float64bits(x)>>52&0x7ff)-1023-24))
	}
	return append(hard, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64)
}

// samples returns numbers of a type. For a type of at most 16 bits, these are all codes. Otherwise they are those of
// hardFloats with two neighbours on each side, limits of integers, NaNs with payloads, and `count` random codes.
func samples(r *rand.Rand, t scalar.Type, hard []float64, count int) (data []byte) {
	size := sizeOf(t)
	if size <= 2 {
		return codesOf(t)
	}
	put := func(code uint64) { data = binary.LittleEndian.AppendUint64(data, code)[:len(data)+size] }
	switch {
	case t.Code <= 1:
		for e := range t.Bits {
			for range 8 {
				tie := (r.Uint64()|1<<63)>>(63-e) | 1
				for shift := range e + 1 { // many zeros at the end, and one more bit
					for near := range uint64(5) {
						code := tie>>shift<<shift + near - 2
						put(code)
						put(-code)
					}
				}
			}
		}
	case t.Bits == 32 && t.Code == 2:
		for _, x := range hard {
			for near := range uint32(5) {
				put(uint64(math.Float32bits(float32(x)) + near - 2))
			}
		}
		for payload := range 23 {
			put(0x7f800000 | 1<<payload)
			put(0xff800000 | 1<<payload | 1)
		}
	case t.Bits == 64 && t.Code == 2:
		for _, x := range hard {
			for near := range uint64(5) {
				put(math.Float64bits(x) + near - 2)
			}
		}
		for payload := range 52 {
			put(0x7ff0000000000000 | 1<<payload)
			put(0xfff0000000000000 | 1<<payload | 1)
		}
	default: // complex: the parts are numbers of a float type
		part := samples(r, numberType(2, t.Bits/2), hard, count)
		n := len(part) / (size / 2)
		for i := range min(n, 20000) {
			k := r.IntN(n)
			data = append(data, part[i*(size/2):][:size/2]...)
			data = append(data, part[k*(size/2):][:size/2]...)
		}
		return data
	}
	for range count * size / 4 {
		data = binary.LittleEndian.AppendUint32(data, r.Uint32())
	}
	for range count { // small numbers too
		code := r.Uint64()
		if t.Code == 2 && t.Bits == 32 {
			code = uint64(math.Float32bits(float32(r.NormFloat64() * 1000)))
		} else if t.Code == 2 {
			code = math.Float64bits(r.NormFloat64() * 1e5)
		} else {
			code >>= 63 - r.Uint64()%64
		}
		put(code)
	}
	return data
}

// numbersOf returns the numbers of a type in memory, each in separate bytes. Without gaps, the one stride is 1.
func numbersOf[T any](memory []T, t scalar.Type, strides ...int64) *Numbers {
	return arrangement{dtype: t, lanes: 1, padded: true, strides: strides}.numbers(unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), 1))
}

// convertDense converts consecutive numbers, each in separate bytes.
func convertDense(plain bool, to, from scalar.Type, src []byte) []byte {
	n := int64(len(src) / sizeOf(from))
	dst := make([]byte, n*int64(sizeOf(to)))
	Convert(plain, numbersOf(dst, to, 1), numbersOf(src, from, 1), []int64{n}, 0, nil)
	runtime.KeepAlive(dst)
	return dst
}

func requireSame(t *testing.T, to, from scalar.Type, src, want, got []byte) {
	t.Helper()
	require.Len(t, got, len(want))
	if bytes.Equal(want, got) {
		return
	}
	a, b := sizeOf(to), sizeOf(from)
	for i := range len(want) / a {
		if x, y := want[i*a:][:a], got[i*a:][:a]; !bytes.Equal(x, y) {
			require.Failf(t, "another number", "number %d of %d: %x becomes %x, not %x", i, len(want)/a, src[i*b:][:b], y, x)
		}
	}
	require.Fail(t, "bytes behind the last number differ")
}

// For every number, the result has the same bits as that of the plain code of package scalar, with AVX2 and without, in
// every floating-point mode of the program. If DLBRIDGE_STRESS is set, it is the number of random numbers of wide
// types.
func TestNumbersBecomeWhatTheyBecomeOneByOne(t *testing.T) {
	count := 10_000
	if text := os.Getenv("DLBRIDGE_STRESS"); text != "" {
		n, err := strconv.Atoi(text)
		if err == nil {
			count = max(n, count)
		}
	}
	r := rand.New(rand.NewPCG(3, 6))
	hard := hardFloats(r)
	if testing.Short() { // all of them are tried by make race
		some := hard[:0]
		for i := r.IntN(9); i < len(hard); i += 9 {
			some = append(some, hard[i])
		}
		hard = some
	}
	for _, from := range numberTypes {
		src := samples(r, from, hard, count)
		for _, to := range numberTypes {
			t.Run(fmt.Sprintf("%d:%d to %d:%d", from.Code, from.Bits, to.Code, to.Bits), func(t *testing.T) {
				want := scalar.Convert(to, from, src)
				if to == from && to.Code != 6 {
					want = src
				}
				if to == from && to.Bits < 8 {
					want = slices.Clone(src)
					for i := range want {
						want[i] &= 1<<to.Bits - 1
					}
				}
				requireSame(t, to, from, src, want, convertDense(false, to, from, src))
				requireSame(t, to, from, src, want, convertDense(true, to, from, src))
				flushed := make([]byte, len(want))
				ConvertFlushing(flushed, dtypeOf(to, 1), src, dtypeOf(from, 1), int64(len(src)/sizeOf(from)))
				requireSame(t, to, from, src, want, flushed)
			})
		}
	}
}

// betweenGuards returns n bytes that end at the beginning of an unreadable page or, unless atEnd, begin at the end of
// one.
func betweenGuards(t *testing.T, n int, atEnd bool) []byte {
	page := syscall.Getpagesize()
	size := (n + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(all)) })
	require.NoError(t, syscall.Mprotect(all[page:page+size], syscall.PROT_READ|syscall.PROT_WRITE))
	if atEnd {
		return all[page+size-n:][:n:n]
	}
	return all[page:][:n:n]
}

// guarded returns n bytes of a memory that begin at a place, and the bytes beside them, up to 64 on each side. It sets
// the bytes beside them to a pattern.
func guarded(memory []byte, place, n int) (data []byte, beside [2][]byte) {
	beside = [2][]byte{memory[max(place-64, 0):place], memory[place+n : min(place+n+64, len(memory))]}
	for _, b := range beside {
		copy(b, bytes.Repeat([]byte{0xA5}, len(b)))
	}
	return memory[place:][:n], beside
}

func requireUntouched(t *testing.T, beside [2][]byte, text string, args ...any) {
	t.Helper()
	for _, b := range beside {
		require.Equal(t, bytes.Repeat([]byte{0xA5}, len(b)), b, append([]any{text}, args...)...)
	}
}

// Any count of numbers is converted, at any address, and nothing beside them is read or written: neither in the
// unreadable pages before and behind them, nor in the same page.
func TestFewNumbersAtAnyAddress(t *testing.T) {
	const most = 3301 * 16
	r := rand.New(rand.NewPCG(9, 1))
	places := map[bool][2][]byte{}
	for _, atEnd := range []bool{false, true} {
		places[atEnd] = [2][]byte{betweenGuards(t, most, atEnd), betweenGuards(t, most, atEnd)}
	}
	for range 4000 {
		from, to := numberTypes[r.IntN(len(numberTypes))], numberTypes[r.IntN(len(numberTypes))]
		n, atEnd := 1+r.IntN(200), r.IntN(2) == 0
		if r.IntN(20) == 0 {
			n = 3000 + r.IntN(300)
		}
		if to == from {
			continue
		}
		place := func(size int) int {
			moved := r.IntN(2) * r.IntN(16) // from the page that cannot be read
			if atEnd {
				return most - n*size - moved
			}
			return moved
		}
		src, _ := guarded(places[atEnd][0], place(sizeOf(from)), n*sizeOf(from))
		dst, beside := guarded(places[atEnd][1], place(sizeOf(to)), n*sizeOf(to))
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		Convert(r.IntN(2) == 0, numbersOf(dst, to, 1), numbersOf(src, from, 1), []int64{int64(n)}, 0, nil)
		requireSame(t, to, from, src, scalar.Convert(to, from, src), dst)
		requireUntouched(t, beside, "%d numbers of %v to %v", n, from, to)
	}
}

// A result that bypasses the caches, because it is a part of a large result, equals that of plain code, wherever source
// and result begin. Nothing beside it is written.
func TestPartsOfLargeResultsAreThoseOfPlainCode(t *testing.T) {
	const n, whole = 5000, 1 << 30
	r := rand.New(rand.NewPCG(2, 8))
	for _, from := range numberTypes {
		for _, to := range numberTypes {
			if from == to || from.Bits < 8 || to.Bits < 8 {
				continue
			}
			for _, moved := range []int{0, 1, sizeOf(to), 64 - sizeOf(to), sizeOf(to) * r.IntN(64/sizeOf(to)), r.IntN(64)} {
				all, memory := make([]byte, n*sizeOf(from)+64), make([]byte, n*sizeOf(to)+256)
				src := all[r.IntN(64):][:n*sizeOf(from)]
				for i := range src {
					src[i] = byte(r.Uint32())
				}
				aligned := int(-uintptr(unsafe.Pointer(&memory[64])) % 64)
				dst, beside := guarded(memory, 64+aligned+moved, n*sizeOf(to))
				x, y := numbersOf(dst, to, 1), numbersOf(src, from, 1)
				convertPart(false, whole, x.Data, x, y.Data, y, []int64{n}, nil)
				requireSame(t, to, from, src, convertDense(true, to, from, src), dst)
				requireUntouched(t, beside, "%v to %v, at byte %d of a line", from, to, moved)
			}
		}
	}
}

// A result that bypasses the caches because it is large equals the results of its small parts.
func TestLargeResultsAreThoseOfSmallOnes(t *testing.T) {
	const n = 9 << 20
	single, half, double, u8 := numberType(2, 32), numberType(2, 16), numberType(2, 64), numberType(1, 8)
	r := rand.New(rand.NewPCG(2, 8))
	src := make([]byte, 8*n)
	for i := 0; i < len(src); i += 8 {
		binary.LittleEndian.PutUint64(src[i:], r.Uint64())
	}
	for _, pair := range [][2]scalar.Type{{u8, single}, {half, single}, {single, double}, {double, single}} {
		from, to := pair[0], pair[1]
		a, b := sizeOf(from), sizeOf(to)
		dst, beside := guarded(make([]byte, n*b+2*64), 64, n*b)
		Convert(false, numbersOf(dst, to, 1), numbersOf(src, from, 1), []int64{n}, 0, nil)
		requireUntouched(t, beside, "%v to %v", from, to)
		for i := 0; i < n; i += 100_000 {
			end := min(i+100_000, n)
			require.True(t, bytes.Equal(convertDense(true, to, from, src[i*a:end*a]), dst[i*b:end*b]), "%v to %v at %d", from, to, i)
		}
	}
}

// takeBits returns a number that begins at a bit as separate bytes, and putBits writes it back.
func takeBits(data []byte, at int64, bits int) []byte {
	out := make([]byte, (bits+7)/8)
	for k := range bits {
		out[k/8] |= data[(at+int64(k))/8] >> ((at + int64(k)) % 8) & 1 << (k % 8)
	}
	return out
}

func putBits(data []byte, at int64, bits int, number []byte) {
	for k := range bits {
		i := at + int64(k)
		data[i/8] = data[i/8]&^(1<<(i%8)) | number[k/8]>>(k%8)&1<<(i%8)
	}
}

// An arrangement says where the elements of a tensor lie.
type arrangement struct {
	dtype     scalar.Type
	lanes     int
	padded    bool
	strides   []int64 // in elements
	start     int64   // byte
	size      int64   // bytes
	wholeBits int64   // of an element, as far as the next one
}

func arrange(r *rand.Rand, t scalar.Type, lanes int, shape []int64, source bool) arrangement {
	a := arrangement{dtype: t, lanes: lanes, padded: r.IntN(2) == 0, strides: make([]int64, len(shape)), start: 8 + r.Int64N(9)}
	a.wholeBits = int64(t.Bits) * int64(lanes)
	if a.padded {
		a.wholeBits = (a.wholeBits + 7) / 8 * 8
	}
	step, low, high := int64(1), int64(0), int64(1)
	if r.IntN(4) == 0 {
		step = 1 + r.Int64N(3)
	}
	order := r.Perm(len(shape))
	if r.IntN(2) == 0 {
		for d := range order {
			order[d] = len(shape) - 1 - d
		}
	}
	for _, d := range order {
		a.strides[d] = step
		if source && r.IntN(8) == 0 {
			a.strides[d] = 0
		}
		if a.wholeBits%8 == 0 && r.IntN(5) == 0 {
			a.strides[d] = -a.strides[d]
		}
		if reach := (shape[d] - 1) * a.strides[d]; reach < 0 {
			low += reach
		} else {
			high += reach
		}
		step *= shape[d]
		if r.IntN(3) == 0 {
			step += r.Int64N(5)
		}
	}
	a.start -= low * a.wholeBits / 8
	a.size = a.start + (high*a.wholeBits+7)/8 + 8
	return a
}

func (a arrangement) numbers(memory []byte) *Numbers {
	return &Numbers{Data: uintptr(unsafe.Pointer(&memory[a.start])), DType: dtypeOf(a.dtype, a.lanes), Bits: int(a.dtype.Bits) * a.lanes, Padded: a.padded, Strides: a.strides}
}

// Converting a tensor in a random layout equals converting its numbers one by one: in any order, reversed, repeated,
// with gaps, with lanes, packed from any bit on.
func TestNumbersInAnyLayoutBecomeWhatTheyBecomeOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	sizes := []int64{1, 2, 3, 4, 5, 7, 16, 31, 32, 33, 40, 64, 100, 255, 256, 257, 300, 1000}
	tries := 3000
	if testing.Short() {
		tries = 600
	}
	for range tries {
		from, to, lanes := numberTypes[r.IntN(len(numberTypes))], numberTypes[r.IntN(len(numberTypes))], 1
		if r.IntN(4) == 0 {
			lanes = 1 + r.IntN(5)
		}
		shape, count, most := make([]int64, r.IntN(5)), int64(1), int64(1000)
		if r.IntN(20) == 0 {
			most = 100_000 // several boxes
		}
		for d := range shape {
			shape[d] = 1
			if n := sizes[r.IntN(len(sizes))]; count*n <= most {
				shape[d] = n
			}
			count *= shape[d]
		}
		a, b := arrange(r, from, lanes, shape, true), arrange(r, to, lanes, shape, false)
		src, dst := make([]byte, a.size), bytes.Repeat([]byte{0xA5}, int(b.size))
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		want := slices.Clone(dst)
		var at [][2]int64
		var numbers []byte
		var s *Scaling
		var scales, shifts []float64
		if isReal(from) && isReal(to) && r.IntN(2) == 0 {
			s = &Scaling{Scale: factors(r, r.Int64N(2)), Shift: factors(r, r.Int64N(2))}
			if len(shape) > 0 && r.IntN(4) != 0 {
				s.Dim = r.IntN(len(shape))
				for _, numbers := range []*[]float64{&s.Scale, &s.Shift} {
					if r.IntN(3) != 0 {
						*numbers = factors(r, shape[s.Dim])
					}
				}
			}
		}
		for flat := range count {
			x, y, rest, entry := a.start*8, b.start*8, flat, int64(0)
			for d, n := range shape {
				i := rest % n
				if s != nil && d == s.Dim {
					entry = i
				}
				rest /= n
				x += i * a.strides[d] * a.wholeBits
				y += i * b.strides[d] * b.wholeBits
			}
			for lane := range int64(lanes) {
				at = append(at, [2]int64{x + lane*int64(from.Bits), y + lane*int64(to.Bits)})
				numbers = append(numbers, takeBits(src, at[len(at)-1][0], int(from.Bits))...)
				if s != nil {
					scales = append(scales, factorAt(s.Scale, 1, entry))
					shifts = append(shifts, factorAt(s.Shift, math.Copysign(0, -1), entry))
				}
			}
		}
		results := numbers
		if s != nil {
			results = scalar.ConvertScaled(to, from, numbers, scales, shifts)
		} else if from != to || from.Code == 6 {
			results = scalar.Convert(to, from, numbers)
		}
		for i, place := range at {
			bits := int(to.Bits)
			number := append(results[i*sizeOf(to):][:sizeOf(to):sizeOf(to)], 0)
			if b.padded && lanes == 1 {
				bits = sizeOf(to) * 8
			}
			putBits(want, place[1], bits, number)
		}
		plain, whole, x, y := r.IntN(3) == 0, r.Int64N(2)<<30, b.numbers(dst), a.numbers(src) // results of 1 GiB bypass the caches
		convertPart(plain, whole, x.Data, x, y.Data, y, shape, s)
		require.Equal(t, want, dst, "%v of %v to %v, %d lanes, plain %v, of %d bytes, %+v", shape, a, b, lanes, plain, whole, s)
	}
}
