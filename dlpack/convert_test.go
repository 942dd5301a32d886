//go:build cgo

package dlpack_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// ---- the reference: numbers as the definitions of the types give them, without tricks with bits ----

// A number is the value of an element. It has two parts, each a number, an infinity or a NaN.
type number struct {
	re, im part
	whole  bool // from an integer type
}

type part struct {
	nan      bool
	infinite int
	negative bool
	value    *big.Float
}

func partOf(x float64) part {
	p := part{negative: math.Signbit(x)}
	switch {
	case math.IsNaN(x):
		p.nan = true
	case math.IsInf(x, 0):
		p.infinite = 1
	default:
		p.value = new(big.Float).SetFloat64(x)
	}
	return p
}

func (p part) zero() bool { return p.value != nil && p.value.Sign() == 0 }

// A small is a float type whose few numbers can be listed.
type small struct {
	exponent, mantissa, bias int
	special                  string // "ieee", "fn", "fnuz", "finite", or "power"
}

var smalls = map[dlpack.DataType]small{
	dlpack.Float16: {5, 10, 15, "ieee"}, dlpack.BFloat16: {8, 7, 127, "ieee"},
	dlpack.Float8E3M4: {3, 4, 3, "ieee"}, dlpack.Float8E4M3: {4, 3, 7, "ieee"}, dlpack.Float8E4M3FN: {4, 3, 7, "fn"},
	dlpack.Float8E4M3FNUZ: {4, 3, 8, "fnuz"}, dlpack.Float8E4M3B11FNUZ: {4, 3, 11, "fnuz"},
	dlpack.Float8E5M2: {5, 2, 15, "ieee"}, dlpack.Float8E5M2FNUZ: {5, 2, 16, "fnuz"},
	dlpack.Float8E8M0FNU: {8, 0, 127, "power"},
	dlpack.Float6E2M3FN:  {2, 3, 1, "finite"}, dlpack.Float6E3M2FN: {3, 2, 3, "finite"}, dlpack.Float4E2M1FN: {2, 1, 1, "finite"},
}

func (f small) width() int { return f.exponent + f.mantissa }

// codes returns the number of codes without the sign.
func (f small) codes() int { return 1 << f.width() }

// magnitude returns the number of a code without its sign, as if there were no special codes.
func (f small) magnitude(code int) float64 {
	e, m := code>>f.mantissa, code&(1<<f.mantissa-1)
	if f.special == "power" {
		return math.Ldexp(1, e-f.bias)
	}
	if e == 0 {
		return math.Ldexp(float64(m), 1-f.bias-f.mantissa)
	}
	return math.Ldexp(float64(m+1<<f.mantissa), e-f.bias-f.mantissa)
}

// finite returns the number of codes, from 0 on, that are finite numbers.
func (f small) finite() int {
	switch f.special {
	case "ieee":
		return f.codes() - 1<<f.mantissa
	case "fn", "power":
		return f.codes() - 1
	}
	return f.codes()
}

func (f small) decode(code int) part {
	negative, rest := code&f.codes() != 0, code%f.codes()
	switch {
	case f.special == "fnuz" && negative && rest == 0:
		return part{nan: true, negative: true}
	case f.special == "ieee" && rest == f.finite():
		return part{infinite: 1, negative: negative}
	case rest >= f.finite():
		return part{nan: true, negative: negative}
	}
	return partOf(math.Copysign(f.magnitude(rest), map[bool]float64{true: -1, false: 1}[negative]))
}

// encode finds the nearest of all numbers. One more number after the largest stands for values that overflow.
func (f small) encode(p part) int {
	sign := 0
	if p.negative {
		sign = f.codes()
	}
	overflow := map[string]int{"ieee": sign | f.finite(), "fn": sign | f.finite(), "fnuz": f.codes(), "finite": sign | (f.codes() - 1), "power": 255}[f.special]
	switch {
	case p.nan && f.special == "ieee":
		return sign | f.finite() | 1<<(f.mantissa-1)
	case p.nan && f.special == "finite":
		return f.codes() - sign
	case f.special == "power" && (p.nan || p.negative || p.zero()):
		return 255
	case p.nan || p.infinite != 0:
		return overflow
	}
	value := new(big.Float).Abs(p.value)
	at := func(code int) *big.Float { return new(big.Float).SetFloat64(f.magnitude(code)) }
	above := sort.Search(f.finite(), func(code int) bool { return at(code).Cmp(value) > 0 })
	if above == 0 {
		return 0 // below the smallest power
	}
	code := above - 1
	low, high := new(big.Float).SetPrec(200).Sub(value, at(code)), new(big.Float).SetPrec(200).Sub(at(above), value)
	switch c := low.Cmp(high); {
	case c > 0, c == 0 && (code%2 == 1 || f.special == "power"):
		code = above
	}
	if code >= f.finite() {
		return overflow
	}
	if f.special == "fnuz" && code == 0 {
		return 0
	}
	return sign | code
}

// take returns element i of padded data.
func take(dt dlpack.DataType, data []byte, i int) number {
	size := dt.ItemSize()
	var raw [8]byte
	first := data[i*size:]
	half := size
	if dt.Code() == dlpack.CodeComplex {
		half = size / 2
	}
	copy(raw[:], first[:half])
	bits := binary.LittleEndian.Uint64(raw[:])
	float := func(bits uint64) part {
		switch {
		case half == 2:
			return smalls[dlpack.Float16].decode(int(bits))
		case half == 4:
			return partOf(float64(math.Float32frombits(uint32(bits))))
		}
		return partOf(math.Float64frombits(bits))
	}
	zero := partOf(0)
	switch dt.Code() {
	case dlpack.CodeBool:
		return number{re: partOf(float64(min(bits, 1))), im: zero, whole: true}
	case dlpack.CodeInt:
		shift := 64 - dt.Bits()
		v := int64(bits<<shift) >> shift
		return number{re: part{value: new(big.Float).SetInt64(v), negative: v < 0}, im: zero, whole: true}
	case dlpack.CodeUInt:
		bits &= 1<<dt.Bits() - 1
		return number{re: part{value: new(big.Float).SetUint64(bits)}, im: zero, whole: true}
	case dlpack.CodeComplex:
		var raw [8]byte
		copy(raw[:], first[half:size])
		return number{re: float(bits), im: float(binary.LittleEndian.Uint64(raw[:]))}
	}
	if f, ok := smalls[dt]; ok {
		return number{re: f.decode(int(bits)), im: zero}
	}
	return number{re: float(bits), im: zero}
}

// put appends a number as an element of padded data.
func put(dst []byte, dt dlpack.DataType, n number) []byte {
	size := dt.ItemSize()
	float := func(dst []byte, size int, p part) []byte {
		if size == 2 {
			return binary.LittleEndian.AppendUint16(dst, uint16(smalls[dlpack.Float16].encode(p)))
		}
		var wide float64
		switch {
		case p.nan:
			wide = math.Copysign(math.NaN(), map[bool]float64{true: -1, false: 1}[p.negative])
		case p.infinite != 0:
			wide = math.Inf(map[bool]int{true: -1, false: 1}[p.negative])
		case size == 4:
			narrow, _ := p.value.Float32()
			wide = float64(narrow)
		default:
			wide, _ = p.value.Float64()
		}
		if p.negative {
			wide = math.Copysign(wide, -1)
		}
		if size == 4 {
			return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(wide)))
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(wide))
	}
	whole := func(x uint64) []byte {
		x &= 1<<dt.Bits() - 1
		return binary.LittleEndian.AppendUint64(dst, x)[:len(dst)+size]
	}
	switch dt.Code() {
	case dlpack.CodeBool:
		return whole(map[bool]uint64{true: 1}[!n.re.zero() || !n.im.zero()])
	case dlpack.CodeInt, dlpack.CodeUInt:
		least, most := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(dt.Bits()))
		if dt.Code() == dlpack.CodeInt {
			most.Rsh(most, 1)
			least.Neg(most)
		}
		most.Sub(most, big.NewInt(1))
		v := new(big.Int)
		switch {
		case n.re.nan:
		case !n.whole && dt.Bits() < 8: // the lowest bits of the number if it fits in an int32
			if n.re.value == nil || n.re.value.Cmp(big.NewFloat(math.MinInt32)) < 0 || n.re.value.Cmp(big.NewFloat(math.MaxInt32)) > 0 {
				break
			}
			n.re.value.Int(v)
		case n.re.infinite != 0 && n.re.negative:
			v = least
		case n.re.infinite != 0:
			v = most
		default:
			n.re.value.Int(v)
			if !n.whole && v.Cmp(least) < 0 {
				v = least
			} else if !n.whole && v.Cmp(most) > 0 {
				v = most
			}
		}
		low := new(big.Int).And(v, new(big.Int).SetUint64(math.MaxUint64)) // two's complement
		return whole(low.Uint64())
	case dlpack.CodeComplex:
		return float(float(dst, size/2, n.re), size/2, n.im)
	}
	if f, ok := smalls[dt]; ok {
		return binary.LittleEndian.AppendUint16(dst, uint16(f.encode(n.re)))[:len(dst)+size]
	}
	return float(dst, size, n.re)
}

var numberTypes = []dlpack.DataType{
	dlpack.Bool, dlpack.Int2, dlpack.Int4, dlpack.Int8, dlpack.Int16, dlpack.Int32, dlpack.Int64,
	dlpack.Uint2, dlpack.Uint4, dlpack.Uint8, dlpack.Uint16, dlpack.Uint32, dlpack.Uint64,
	dlpack.Float16, dlpack.BFloat16, dlpack.Float32, dlpack.Float64,
	dlpack.Float8E3M4, dlpack.Float8E4M3, dlpack.Float8E4M3B11FNUZ, dlpack.Float8E4M3FN, dlpack.Float8E4M3FNUZ,
	dlpack.Float8E5M2, dlpack.Float8E5M2FNUZ, dlpack.Float8E8M0FNU,
	dlpack.Float6E2M3FN, dlpack.Float6E3M2FN, dlpack.Float4E2M1FN,
	dlpack.Complex32, dlpack.Complex64, dlpack.Complex128,
}

// samplesOf returns elements of a type. Types of up to 8 bits have all elements; others have special and random elements,
// and those halfway between two numbers of a smaller type.
func samplesOf(r *rand.Rand, dt dlpack.DataType) (data []byte) {
	size := dt.ItemSize()
	if size == 1 {
		most := 256
		if dt.Bits() < 8 {
			most = 1 << dt.Bits()
		}
		for code := range most {
			data = append(data, byte(code))
		}
		return data
	}
	edges := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2.5, 3, 7.5, 127.9, 128, 255.5, 256, -128.5, -129, 448, 464, 465, 57344, 61440, 65504, 65519, 65520, 65536,
		1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 1 << 53, 1<<53 + 2, 1 << 63, -1 << 63, 1 << 64, math.MaxFloat32, math.MaxFloat64, -math.MaxFloat64, 1e-40, 1e-320,
		math.SmallestNonzeroFloat32, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(math.NaN(), -1), 6.1e-5, 5.96e-8, 2.98e-8, 2.99e-8}
	for _, x := range edges {
		for _, y := range []float64{x, math.Nextafter(x, math.Inf(1)), math.Nextafter(x, math.Inf(-1))} {
			data = put(data, dt, number{re: partOf(y), im: partOf(-y)})
		}
	}
	if dt.Code() == dlpack.CodeInt || dt.Code() == dlpack.CodeUInt {
		for shift := range dt.Bits() {
			for _, more := range []uint64{0, 1, math.MaxUint64, 1 << (shift / 2), 1<<(shift/2) + 1} {
				data = binary.LittleEndian.AppendUint64(data, 1<<shift+more)[:len(data)+size]
				data = binary.LittleEndian.AppendUint64(data, -(1<<shift + more))[:len(data)+size]
			}
		}
	}
	for range 300 {
		for range size {
			data = append(data, byte(r.Uint32()))
		}
	}
	return data
}

// sameNumbers compares elements. NaNs of more than 8 bits may differ in their payload.
func sameNumbers(dt dlpack.DataType, a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if dt.ItemSize() == 1 {
		return false
	}
	x, y := take(dt, a, 0), take(dt, b, 0)
	same := func(x, y part) bool {
		if x.nan || y.nan {
			return x.nan && y.nan && x.negative == y.negative
		}
		return x.infinite == y.infinite && x.negative == y.negative && (x.value == nil || x.value.Cmp(y.value) == 0)
	}
	return same(x.re, y.re) && same(x.im, y.im)
}

func TestEveryTypeBecomesEveryOther(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, from := range numberTypes {
		data := samplesOf(r, from)
		n := len(data) / from.ItemSize()
		src := fromBytes(t, data, dlpack.Spec{DType: from, Shape: []int64{int64(n)}, Padded: true})
		for _, to := range numberTypes {
			size := to.ItemSize()
			got := bytes.Repeat([]byte{0xA5}, n*size)
			dst := fromBytes(t, got, dlpack.Spec{DType: to, Shape: []int64{int64(n)}, Padded: true})
			require.NoError(t, src.ConvertTo(dst))
			if from == to {
				require.Equal(t, data, got)
				continue
			}
			for i := range n {
				want := put(nil, to, take(from, data, i))
				if have := got[i*size : (i+1)*size]; !sameNumbers(to, want, have) {
					assert.Failf(t, "another number", "%v %x to %v: %x, not %x", from, data[i*from.ItemSize():(i+1)*from.ItemSize()], to, have, want)
					break
				}
			}
		}
	}
}

// inputsOf returns the float32 values that testdata/convert.py uses for a type.
func inputsOf(dt dlpack.DataType) (inputs []float32) {
	for upper := range uint32(1 << 20) {
		for _, lower := range []uint32{0, 1, 0xFFF} {
			x := math.Float32frombits(upper<<12 | lower)
			if dt == dlpack.Float8E8M0FNU && x != 0 && math.Abs(float64(x)) < 0x1p-126 {
				continue
			}
			inputs = append(inputs, x)
		}
	}
	return inputs
}

// Every number of up to 16 bits, packed and padded, becomes the same float32 as in NumPy and ml_dtypes, bit by bit. In the other
// direction, this is tested with float32 around all values at which the result changes. Numbers with gaps between them are
// converted one at a time, with the same results. With DLBRIDGE_STRESS, all float32 are tested for the most common types.
func TestSmallNumbersAreThoseOfMLDtypes(t *testing.T) {
	testmode.SkipLong(t)
	text := must.Do(os.ReadFile("testdata/convert.json"))(t)
	var golden map[string]struct{ Decoded, Encoded, All string }
	require.NoError(t, json.Unmarshal(text, &golden))
	types := []dlpack.DataType{dlpack.Int2, dlpack.Uint2, dlpack.Int4, dlpack.Uint4}
	for dt := range smalls {
		types = append(types, dt)
	}
	require.Len(t, golden, len(types))
	for _, dt := range types {
		t.Run(dt.String(), func(t *testing.T) {
			want, size, count := golden[dt.String()], int64(dt.ItemSize()), int64(1)<<dt.Bits()
			var codes []byte
			for code := range count {
				codes = binary.LittleEndian.AppendUint16(codes, uint16(code))[:len(codes)+int(size)]
			}
			inputs := inputsOf(dt)
			floats := must.Own(dlpack.FromSlice(inputs))(t)
			n := floats.NumElements()
			sums := func(name, want string, elements *dlpack.Tensor) {
				raw := must.Do(elements.AppendBytes(nil))(t)
				sum := sha256.Sum256(raw)
				assert.Equal(t, want, hex.EncodeToString(sum[:]), name)
			}
			padded := func(memory []byte, count, step int64) *dlpack.Tensor {
				return fromBytes(t, memory, dlpack.Spec{DType: dt, Shape: []int64{count}, Strides: []int64{step}, Padded: true})
			}

			decoded := fromBytes(t, make([]byte, 4*count), dlpack.Spec{DType: dlpack.Float32, Shape: []int64{count}})
			encoded := padded(make([]byte, n*size), n, 1)
			require.NoError(t, padded(codes, count, 1).ConvertTo(decoded))
			require.NoError(t, floats.ConvertTo(encoded))
			sums("decoded", want.Decoded, decoded)
			sums("encoded", want.Encoded, encoded)

			apart := fromBytes(t, make([]byte, 8*count), dlpack.Spec{DType: dlpack.Float32, Shape: []int64{count}, Strides: []int64{2}})
			encodedApart := padded(make([]byte, 2*n*size), n, 2)
			require.NoError(t, padded(codes, count, 1).ConvertTo(apart))
			require.NoError(t, floats.ConvertTo(encodedApart))
			sums("decoded, not side by side", want.Decoded, apart)
			sums("encoded, not side by side", want.Encoded, encodedApart)

			if dt.IsSubByte() {
				packed := func(count int64) *dlpack.Tensor {
					return fromBytes(t, make([]byte, (count*int64(dt.Bits())+7)/8), dlpack.Spec{DType: dt, Shape: []int64{count}})
				}
				all, many := packed(count), packed(n)
				require.NoError(t, padded(codes, count, 1).CopyTo(all))
				require.NoError(t, all.ConvertTo(decoded))
				require.NoError(t, floats.ConvertTo(many))
				require.NoError(t, many.CopyTo(encoded))
				sums("packed, decoded", want.Decoded, decoded)
				sums("packed, encoded", want.Encoded, encoded)
			}

			if want.All != "" && os.Getenv("DLBRIDGE_STRESS") != "" {
				sum := sha256.New()
				some := padded(make([]byte, 1<<20*size), 1<<20, 1)
				part := fromBytes(t, unsafe.Slice((*byte)(unsafe.Pointer(&inputs[0])), 4<<20), dlpack.Spec{DType: dlpack.Float32, Shape: []int64{1 << 20}})
				for upper := range uint32(1 << 12) {
					for lower := range uint32(1 << 20) {
						inputs[lower] = math.Float32frombits(upper<<20 | lower)
					}
					require.NoError(t, part.ConvertTo(some))
					raw := must.Do(some.AppendBytes(nil))(t)
					sum.Write(raw)
				}
				assert.Equal(t, want.All, hex.EncodeToString(sum.Sum(nil)), "all float32")
			}
		})
	}
}

func TestPackedNumbersConvert(t *testing.T) {
	floats := must.Own(dlpack.FromSlice([]float32{-8, 7, 0.9, -1.5, 100, -100, float32(math.NaN())}))(t)
	memory := bytes.Repeat([]byte{0xFF}, 5)
	packed := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{7}})
	require.NoError(t, floats.ConvertTo(packed))
	assert.Equal(t, []byte{0x78, 0xF0, 0xC4, 0xF0, 0xFF}, memory, "the eighth element is nobody's")

	back := must.Own(packed.Convert(dlpack.Float32))(t)
	values := must.Do(dlpack.Values[float32](back))(t)
	assert.Equal(t, []float32{-8, 7, 0, -1, 4, -4, 0}, values)

	loose := make([]byte, 7)
	padded := fromBytes(t, loose, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{7}, Padded: true})
	require.NoError(t, packed.CopyTo(padded))
	assert.Equal(t, []byte{8, 7, 0, 15, 4, 12, 0}, loose)
	again := must.Own(dlpack.New(dlpack.Int4, 7))(t)
	require.NoError(t, padded.CopyTo(again))
	data := must.Do(again.AppendBytes(nil))(t)
	assert.Equal(t, []byte{0x78, 0xF0, 0xC4, 0x00}, data)
}

// Any number of elements of 2, 4 and 6 bits, packed and padded, can be converted to each other and back.
func TestPackedAndPaddedAgree(t *testing.T) {
	for _, dt := range []dlpack.DataType{dlpack.Int2, dlpack.Uint2, dlpack.Int4, dlpack.Uint4, dlpack.Float4E2M1FN, dlpack.Float6E2M3FN, dlpack.Float6E3M2FN} {
		for n := range 70 {
			t.Run(fmt.Sprint(dt, n), func(t *testing.T) {
				loose := make([]byte, n)
				packed := new(big.Int)
				for i := range loose {
					loose[i] = byte(i*7+3) & (1<<dt.Bits() - 1)
					packed.Or(packed, new(big.Int).Lsh(big.NewInt(int64(loose[i])), uint(i)*uint(dt.Bits())))
				}
				want := make([]byte, (n*int(dt.Bits())+7)/8)
				packed.FillBytes(want)
				slices.Reverse(want)

				tight := make([]byte, len(want))
				a := fromBytes(t, loose, dlpack.Spec{DType: dt, Shape: []int64{int64(n)}, Padded: true})
				b := fromBytes(t, tight, dlpack.Spec{DType: dt, Shape: []int64{int64(n)}})
				require.NoError(t, a.CopyTo(b))
				assert.Equal(t, want, tight)
				clear(loose)
				require.NoError(t, b.CopyTo(a))
				for i := range loose {
					assert.Equal(t, byte(i*7+3)&(1<<dt.Bits()-1), loose[i])
				}
			})
		}
	}
}

func TestConversionsBetweenAnyTwoLayouts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	types := []dlpack.DataType{dlpack.Uint8, dlpack.Int32, dlpack.Float32, dlpack.Float16, dlpack.BFloat16, dlpack.Complex64, dlpack.Int4, dlpack.MakeDataType(dlpack.CodeFloat, 32, 3), dlpack.MakeDataType(dlpack.CodeInt, 16, 3)}
	for range fewer(3000) {
		from, to := types[r.IntN(len(types))], types[r.IntN(len(types))]
		if from.Lanes() != to.Lanes() {
			continue
		}
		shape := make([]int64, r.IntN(4))
		count := int64(1)
		for d := range shape {
			shape[d] = 1 + r.Int64N(6)
			if r.IntN(6) == 0 {
				shape[d] = 250 + r.Int64N(20)
			}
			count *= shape[d]
		}
		if count > 20000 {
			continue
		}
		spec := func(dt dlpack.DataType) dlpack.Spec {
			s := dlpack.Spec{DType: dt, Shape: shape, Strides: make([]int64, len(shape)), Padded: true}
			step, low := int64(1+r.Int64N(2)), int64(0)
			for _, d := range r.Perm(len(shape)) {
				s.Strides[d] = step
				if r.IntN(3) == 0 {
					s.Strides[d] = -step
					low += (shape[d] - 1) * step
				}
				step *= shape[d]
			}
			s.ByteOffset = low * int64(dt.ItemSize())
			return s
		}
		a, b := spec(from), spec(to)
		small := make([]byte, (count*2+1)*int64(from.ItemSize()))
		for i := range small {
			small[i] = byte(r.IntN(64)) // codes of at most 6 bits, for floats too
		}
		memory := bytes.Repeat([]byte{0xA5}, int((count*2+1)*int64(to.ItemSize())))
		want := slices.Clone(memory)
		src, dst := fromBytes(t, small, a), fromBytes(t, memory, b)
		require.NoError(t, src.ConvertTo(dst))
		one := func(dt dlpack.DataType) dlpack.DataType { return dlpack.MakeDataType(dt.Code(), dt.Bits(), 1) }
		for flat := range count {
			at, to0, rest := a.ByteOffset, b.ByteOffset, flat
			for d, n := range shape {
				i := rest % n
				rest /= n
				at += i * a.Strides[d] * int64(from.ItemSize())
				to0 += i * b.Strides[d] * int64(to.ItemSize())
			}
			for l := range int(from.Lanes()) {
				x := take(one(from), small[at:], l)
				copy(want[int(to0)+l*one(to).ItemSize():], put(nil, one(to), x))
			}
		}
		if from == to {
			continue // copies are tested elsewhere, and keep the padding bits
		}
		if !bytes.Equal(want, memory) {
			for i := 0; i < len(want); i += one(to).ItemSize() {
				size := one(to).ItemSize()
				require.Truef(t, sameNumbers(one(to), want[i:i+size], memory[i:i+size]), "%v to %v, %+v, %+v, at %d", from, to, a, b, i)
			}
		}
	}
}

func TestConvertToRefuses(t *testing.T) {
	memory := counted(64)
	tests := []struct {
		name     string
		src, dst dlpack.Spec
		err      error
	}{
		{"handles", dlpack.Spec{DType: dlpack.OpaqueHandle64, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Int64, Shape: []int64{2}, ByteOffset: 16}, dlpack.ErrDType},
		{"other lanes", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.MakeDataType(dlpack.CodeFloat, 16, 2), Shape: []int64{2}, ByteOffset: 16}, dlpack.ErrDType},
		{"another shape", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Int8, Shape: []int64{3}, ByteOffset: 16}, dlpack.ErrLayout},
		{"overlapping memory", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Int32, Shape: []int64{2}}, dlpack.ErrLayout},
		{"an overlapping destination", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Int32, Shape: []int64{2}, Strides: []int64{0}, ByteOffset: 16}, dlpack.ErrLayout},
		{"a read-only destination", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Int32, Shape: []int64{2}, ByteOffset: 16, ReadOnly: true}, dlpack.ErrReadOnly},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			src, dst := fromBytes(t, memory, test.src), fromBytes(t, memory, test.dst)
			assert.ErrorIs(t, src.ConvertTo(dst), test.err)
			assert.Equal(t, counted(64), memory)
		})
	}
	closed := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2}})
	closed.Close()
	must.Fail(closed.Convert(dlpack.Int8))(t, dlpack.ErrClosed)
	open := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2}})
	must.Fail(open.Convert(dlpack.OpaqueHandle64))(t, dlpack.ErrDType)
	must.Fail(open.Convert(dlpack.MakeDataType(dlpack.CodeFloat, 128, 1)))(t, dlpack.ErrDType)
}

func TestConvertScaledRefuses(t *testing.T) {
	memory := counted(64)
	src := dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2, 3}}
	dst := dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 3}, ByteOffset: 16}
	tests := []struct {
		name     string
		src, dst dlpack.Spec
		scaling  dlpack.Scaling
		err      error
	}{
		{"too few scales", src, dst, dlpack.Scaling{Scale: []float64{1, 2}, Dim: 1}, dlpack.ErrLayout},
		{"too many shifts", src, dst, dlpack.Scaling{Scale: []float64{1, 2}, Shift: []float64{1, 2, 3}}, dlpack.ErrLayout},
		{"no such dimension", src, dst, dlpack.Scaling{Scale: []float64{1, 2}, Dim: 2}, dlpack.ErrLayout},
		{"no such dimension from the end", src, dst, dlpack.Scaling{Scale: []float64{1, 2}, Dim: -3}, dlpack.ErrLayout},
		{"several for no dimension", dlpack.Spec{DType: dlpack.Uint8}, dlpack.Spec{DType: dlpack.Float32, ByteOffset: 16}, dlpack.Scaling{Shift: []float64{1, 2}}, dlpack.ErrLayout},
		{"a complex source", dlpack.Spec{DType: dlpack.Complex64, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}, ByteOffset: 16}, dlpack.Scaling{}, dlpack.ErrDType},
		{"a complex destination", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Complex64, Shape: []int64{2}, ByteOffset: 16}, dlpack.Scaling{}, dlpack.ErrDType},
		{"handles", dlpack.Spec{DType: dlpack.OpaqueHandle64, Shape: []int64{2}}, dlpack.Spec{DType: dlpack.Int64, Shape: []int64{2}, ByteOffset: 16}, dlpack.Scaling{}, dlpack.ErrDType},
		{"another shape", src, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{3, 2}, ByteOffset: 16}, dlpack.Scaling{}, dlpack.ErrLayout},
		{"overlapping memory", src, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 3}, ByteOffset: 4}, dlpack.Scaling{}, dlpack.ErrLayout},
		{"itself", src, src, dlpack.Scaling{}, dlpack.ErrLayout},
		{"a read-only destination", src, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 3}, ByteOffset: 16, ReadOnly: true}, dlpack.Scaling{}, dlpack.ErrReadOnly},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			src, dst := fromBytes(t, memory, test.src), fromBytes(t, memory, test.dst)
			assert.ErrorIs(t, src.ConvertScaled(dst, test.scaling), test.err)
			assert.Equal(t, counted(64), memory)
		})
	}
}

func TestConvertScaledTakesWhatThereIs(t *testing.T) {
	src := must.Own(dlpack.FromSlice([]uint8{1, 2, 3, 4, 5, 6}, 2, 3))(t)
	got := make([]float32, 6)
	dst := must.Own(dlpack.FromSlice(got, 2, 3))(t)
	for _, test := range []struct {
		scaling dlpack.Scaling
		want    []float32
	}{
		{dlpack.Scaling{Dim: 9}, []float32{1, 2, 3, 4, 5, 6}},
		{dlpack.Scaling{Scale: []float64{2}, Dim: 9}, []float32{2, 4, 6, 8, 10, 12}},
		{dlpack.Scaling{Scale: []float64{2, 3}, Shift: []float64{1}}, []float32{3, 5, 7, 13, 16, 19}},
		{dlpack.Scaling{Shift: []float64{1, 2, 3}, Dim: -1}, []float32{2, 4, 6, 5, 7, 9}},
		{dlpack.Scaling{Scale: []float64{math.NaN()}, Shift: []float64{1, 2}, Dim: -2}, slices.Repeat([]float32{float32(math.NaN())}, 6)},
	} {
		require.NoError(t, src.ConvertScaled(dst, test.scaling))
		for i, want := range test.want {
			require.Equal(t, math.Float32bits(want), math.Float32bits(got[i]), "%+v, element %d", test.scaling, i)
		}
	}
	negative, zero := must.Own(dlpack.FromSlice([]float32{float32(math.Copysign(0, -1))}))(t), must.Own(dlpack.FromSlice(got[:1]))(t)
	require.NoError(t, negative.ConvertScaled(zero, dlpack.Scaling{}))
	assert.Equal(t, uint32(1)<<31, math.Float32bits(got[0]), "a shift that is missing is not 0")
}

// If the source is one element of the destination, it is read first.
func TestConvertScaledRepeatsAnElementOfTheDestination(t *testing.T) {
	numbers := []int16{1, 20, 3, 4}
	dst := must.Own(dlpack.FromSlice(numbers, 4))(t)
	one := must.Own(must.Own(dst.Narrow(0, 1, 1))(t).BroadcastTo(4))(t)
	require.NoError(t, one.ConvertScaled(dst, dlpack.Scaling{Scale: []float64{2}, Shift: []float64{0, 1, 2, 3}}))
	assert.Equal(t, []int16{40, 41, 42, 43}, numbers)
}

func TestLargeConversionsKeepEveryElement(t *testing.T) {
	const rows, columns = 2100, 2050
	src := make([]float32, rows*columns)
	for i := range src {
		src[i] = float32(i)
	}
	a := must.Own(dlpack.FromSlice(src, rows, columns))(t)
	turned := must.Own(a.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{columns, rows}, Strides: []int64{1, columns}}))(t)
	b := must.Own(turned.Convert(dlpack.Int64))(t)
	values := must.Do(dlpack.Values[int64](b))(t)
	for j := range columns {
		for i := range rows {
			if values[j*rows+i] != int64(i*columns+j) {
				require.Failf(t, "another element", "%d, %d: %d", i, j, values[j*rows+i])
			}
		}
	}
}

// FuzzConvertTo converts elements with any bits. The result must equal that of the reference, and other memory must not be
// written.
func FuzzConvertTo(f *testing.F) {
	r := rand.New(rand.NewPCG(6, 6))
	for i, dt := range numberTypes {
		data := samplesOf(r, dt)
		f.Add(uint8(i), uint8(3*i+1), data[:min(len(data), 16)])
	}
	f.Fuzz(func(t *testing.T, i, j uint8, data []byte) {
		from, to := numberTypes[int(i)%len(numberTypes)], numberTypes[int(j)%len(numberTypes)]
		n := min(len(data)/from.ItemSize(), 40)
		if from == to || n == 0 {
			return
		}
		data = slices.Clone(data)
		for k := range data {
			if from.Bits() < 8 {
				data[k] &= 1<<from.Bits() - 1
			}
		}
		size := to.ItemSize()
		got := bytes.Repeat([]byte{0xA5}, (2*n+1)*size)
		src := fromBytes(t, data, dlpack.Spec{DType: from, Shape: []int64{int64(n)}, Padded: true})
		dst := fromBytes(t, got, dlpack.Spec{DType: to, Shape: []int64{int64(n)}, Strides: []int64{-2}, ByteOffset: int64((2*n - 1) * size), Padded: true})
		require.NoError(t, src.ConvertTo(dst))
		for k := range n {
			at := (2*n - 1 - 2*k) * size
			want := put(nil, to, take(from, data, k))
			require.Truef(t, sameNumbers(to, want, got[at:at+size]), "%v to %v, element %d: %x, not %x", from, to, k, got[at:at+size], want)
			require.Equal(t, bytes.Repeat([]byte{0xA5}, size), got[at+size:at+2*size])
		}
		require.Equal(t, bytes.Repeat([]byte{0xA5}, size), got[:size])
	})
}

func ExampleTensor_Convert() {
	t, _ := dlpack.FromSlice([]float64{1, 2.7, -300, math.Inf(1)})
	defer t.Close()
	c, _ := t.Convert(dlpack.Int8)
	defer c.Close()

	fmt.Println(c)
	// Output: int8[4] on cpu [1 2 -128 127]
}

func ExampleTensor_ConvertTo() {
	t, _ := dlpack.FromSlice([]float32{1, 1.0 / 3, 1e6})
	defer t.Close()
	memory := make([]byte, 6)
	half, _ := dlpack.FromBytes(memory, dlpack.Spec{DType: dlpack.Float16, Shape: []int64{3}})
	defer half.Close()

	fmt.Printf("%v % x\n", t.ConvertTo(half), memory)
	// Output: <nil> 00 3c 55 35 00 7c
}

func ExampleTensor_ConvertScaled() {
	pixels, _ := dlpack.FromSlice([]uint8{0, 51, 255, 255, 0, 0}, 2, 3) // two pixels of three channels
	defer pixels.Close()
	channels, _ := pixels.Transpose()
	defer channels.Close()
	numbers := make([]float32, 6)
	floats, _ := dlpack.FromSlice(numbers, 3, 2)
	defer floats.Close()

	err := channels.ConvertScaled(floats, dlpack.Scaling{Scale: []float64{1. / 255}, Shift: []float64{0, 1, -1}, Dim: 0})
	fmt.Println(numbers, err)
	// Output: [0 1 1.2 1 0 -1] <nil>
}
