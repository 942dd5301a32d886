package dlpack_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// named lists the constants of the package with the three numbers of the standard.
var named = []struct {
	dtype dlpack.DataType
	name  string
	code  dlpack.TypeCode
	bits  uint8
	lanes uint16
	size  int
}{
	{dlpack.Bool, "bool", 6, 8, 1, 1},
	{dlpack.Int2, "int2", 0, 2, 1, 1},
	{dlpack.Int4, "int4", 0, 4, 1, 1},
	{dlpack.Int8, "int8", 0, 8, 1, 1},
	{dlpack.Int16, "int16", 0, 16, 1, 2},
	{dlpack.Int32, "int32", 0, 32, 1, 4},
	{dlpack.Int64, "int64", 0, 64, 1, 8},
	{dlpack.Uint2, "uint2", 1, 2, 1, 1},
	{dlpack.Uint4, "uint4", 1, 4, 1, 1},
	{dlpack.Uint8, "uint8", 1, 8, 1, 1},
	{dlpack.Uint16, "uint16", 1, 16, 1, 2},
	{dlpack.Uint32, "uint32", 1, 32, 1, 4},
	{dlpack.Uint64, "uint64", 1, 64, 1, 8},
	{dlpack.Float16, "float16", 2, 16, 1, 2},
	{dlpack.Float32, "float32", 2, 32, 1, 4},
	{dlpack.Float64, "float64", 2, 64, 1, 8},
	{dlpack.OpaqueHandle64, "handle64", 3, 64, 1, 8},
	{dlpack.BFloat16, "bfloat16", 4, 16, 1, 2},
	{dlpack.Complex32, "complex32", 5, 32, 1, 4},
	{dlpack.Complex64, "complex64", 5, 64, 1, 8},
	{dlpack.Complex128, "complex128", 5, 128, 1, 16},
	{dlpack.Float8E3M4, "float8_e3m4", 7, 8, 1, 1},
	{dlpack.Float8E4M3, "float8_e4m3", 8, 8, 1, 1},
	{dlpack.Float8E4M3B11FNUZ, "float8_e4m3b11fnuz", 9, 8, 1, 1},
	{dlpack.Float8E4M3FN, "float8_e4m3fn", 10, 8, 1, 1},
	{dlpack.Float8E4M3FNUZ, "float8_e4m3fnuz", 11, 8, 1, 1},
	{dlpack.Float8E5M2, "float8_e5m2", 12, 8, 1, 1},
	{dlpack.Float8E5M2FNUZ, "float8_e5m2fnuz", 13, 8, 1, 1},
	{dlpack.Float8E8M0FNU, "float8_e8m0fnu", 14, 8, 1, 1},
	{dlpack.Float6E2M3FN, "float6_e2m3fn", 15, 6, 1, 1},
	{dlpack.Float6E3M2FN, "float6_e3m2fn", 16, 6, 1, 1},
	{dlpack.Float4E2M1FN, "float4_e2m1fn", 17, 4, 1, 1},
	{dlpack.Float4E2M1FNx2, "float4_e2m1fnx2", 17, 4, 2, 1},
	{dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), "float32x4", 2, 32, 4, 16},
	{dlpack.MakeDataType(dlpack.CodeComplex, 64, 2), "complex64x2", 5, 64, 2, 16},
	{dlpack.MakeDataType(dlpack.CodeBool, 8, 8), "boolx8", 6, 8, 8, 8},
	{dlpack.MakeDataType(dlpack.CodeInt, 4, 3), "int4x3", 0, 4, 3, 2},
	{dlpack.MakeDataType(dlpack.CodeOpaqueHandle, 128, 1), "handle128", 3, 128, 1, 16},
	{dlpack.MakeDataType(dlpack.CodeComplex, 128, 65535), "complex128x65535", 5, 128, 65535, 16 * 65535},
}

func TestDataTypesAreTheNumbersOfTheStandard(t *testing.T) {
	for _, c := range named {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.code, c.dtype.Code())
			assert.Equal(t, c.bits, c.dtype.Bits())
			assert.Equal(t, c.lanes, c.dtype.Lanes())
			assert.Equal(t, c.dtype, dlpack.MakeDataType(c.code, c.bits, c.lanes))
			assert.Equal(t, int(c.bits)*int(c.lanes), c.dtype.BitSize())
			assert.Equal(t, c.size, c.dtype.ItemSize())
			assert.Equal(t, c.dtype.BitSize() < 8 || c.name == "int4x3", c.dtype.IsSubByte())
			assert.NoError(t, c.dtype.Validate())
			assert.Equal(t, c.name, c.dtype.String())
		})
	}
}

// Every code, width and number of lanes has a text. The text of a valid type is parsed as the same type.
func TestParseReadsWhatStringPrints(t *testing.T) {
	valid := 0
	for code := range 32 { // known and unknown codes
		for bits := range 256 {
			for _, lanes := range []uint16{0, 1, 2, 3, 4, 10, 16, 100, 65535} {
				dt := dlpack.MakeDataType(dlpack.TypeCode(code), uint8(bits), lanes)
				got, err := dlpack.ParseDataType(dt.String())
				if dt.Validate() == nil {
					valid++
					require.NoError(t, err)
					require.Equal(t, dt, got)
					continue
				}
				require.ErrorIs(t, err, dlpack.ErrDType)
				require.Equal(t, fmt.Sprintf("(code %d, bits %d, lanes %d)", code, bits, lanes), dt.String())
			}
		}
	}
	// 12 integers, 3 floats, 5 handles, bfloat16, 3 complex, bool, 8 of 8 bits, 2 of 6, 1 of 4.
	assert.Equal(t, (12+3+5+1+3+1+8+2+1)*8, valid)
}

func TestDataTypesAreTextInJSON(t *testing.T) {
	type config struct {
		DType dlpack.DataType `json:",omitzero"`
		Sizes map[dlpack.DataType]int
	}
	for _, c := range named {
		x := config{DType: c.dtype, Sizes: map[dlpack.DataType]int{c.dtype: c.size}}
		text := must.Do(json.Marshal(x))(t)
		assert.Equal(t, fmt.Sprintf(`{"DType":%q,"Sizes":{%q:%d}}`, c.name, c.name, c.size), string(text))
		var back config
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, x, back)
	}
	assert.Equal(t, `{"Sizes":null}`, string(must.Do(json.Marshal(config{}))(t)))
	_, err := dlpack.DataType(0).MarshalText()
	require.ErrorIs(t, err, dlpack.ErrDType)
	assert.EqualError(t, err, "dlpack: marshal text: dtype = (code 0, bits 0, lanes 0): int has 2, 4, 8, 16, 32, 64 bits, not 0")
	dt := dlpack.Int4
	for _, text := range []string{`""`, `"float33"`, `7`, `"(code 2, bits 32, lanes 1)"`} {
		assert.Error(t, json.Unmarshal([]byte(text), &dt), text)
		assert.Equal(t, dlpack.Int4, dt, text)
	}
	assert.ErrorIs(t, dt.UnmarshalText([]byte("float33")), dlpack.ErrDType)
	require.NoError(t, dt.UnmarshalText([]byte("<f4")))
	assert.Equal(t, dlpack.Float32, dt)
}

func TestParseDataTypeReadsOtherSpellings(t *testing.T) {
	for text, want := range map[string]dlpack.DataType{
		"float4_e2m1fn_x2": dlpack.Float4E2M1FNx2,
		"float32_x4":       dlpack.MakeDataType(dlpack.CodeFloat, 32, 4),
		"handle":           dlpack.OpaqueHandle64,
		"handlex2":         dlpack.MakeDataType(dlpack.CodeOpaqueHandle, 64, 2),
	} {
		got, err := dlpack.ParseDataType(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestParseDataTypeRejects(t *testing.T) {
	for _, text := range []string{
		"", "x", "x2", "_x2", "floats", "float32x", "float32x0", "float32x1", "float32x02", "float32x65536", "float32x-2",
		"float32x+2", "float32x2x2", "float32__x2", "float32 ", " float32", "Float32", "float032", "float+32", "float128",
		"float8", "float8_e4m3fnu", "float8_e4m38", "float4_e2m1fn4", "bool8", "bfloat", "bfloat32", "bfloat16x", "complexx2",
		"complex256", "Int", "int1", "int3", "int7", "int128", "uint1", "uintx2", "handle1", "<f3", "(code 2, bits 32, lanes 1)",
	} {
		t.Run(text, func(t *testing.T) {
			dt, err := dlpack.ParseDataType(text)
			require.ErrorIs(t, err, dlpack.ErrDType)
			assert.EqualError(t, err, fmt.Sprintf(`dlpack: parse data type: %q is not like "float32" or "<f4"`, text))
			assert.ErrorAs(t, err, new(*dlpack.Error))
			assert.Zero(t, dt)
		})
	}
}

func TestValidateRefusesWhatNobodyMeans(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  dlpack.TypeCode
		bits  uint8
		lanes uint16
		why   string
	}{
		{"a bit as bool", dlpack.CodeBool, 1, 1, "bool has 8 bits, not 1"},
		{"a bit as uint", dlpack.CodeUInt, 1, 1, "uint has 2, 4, 8, 16, 32, 64 bits, not 1"},
		{"wide bool", dlpack.CodeBool, 32, 1, "bool has 8 bits, not 32"},
		{"wide bfloat", dlpack.CodeBFloat, 32, 1, "bfloat has 16 bits, not 32"},
		{"padded fp6", dlpack.CodeFloat6E2M3FN, 8, 1, "float6_e2m3fn has 6 bits, not 8"},
		{"fp8 of 16 bits", dlpack.CodeFloat8E5M2, 16, 1, "float8_e5m2 has 8 bits, not 16"},
		{"fp4 pair as one", dlpack.CodeFloat4E2M1FN, 8, 1, "float4_e2m1fn has 4 bits, not 8"},
		{"no lanes", dlpack.CodeFloat, 32, 0, "lanes must be at least 1"},
		{"odd complex", dlpack.CodeComplex, 96, 1, "complex has 32, 64, 128 bits, not 96"},
		{"long double", dlpack.CodeFloat, 128, 1, "float has 16, 32, 64 bits, not 128"},
		{"x87", dlpack.CodeFloat, 80, 1, "float has 16, 32, 64 bits, not 80"},
		{"no bits", dlpack.CodeInt, 0, 1, "int has 2, 4, 8, 16, 32, 64 bits, not 0"},
		{"odd integer", dlpack.CodeInt, 24, 1, "int has 2, 4, 8, 16, 32, 64 bits, not 24"},
		{"newer code", dlpack.CodeFloat4E2M1FN + 1, 8, 1, "code 18 is unknown, codes are 0 to 17"},
		{"last code", 255, 8, 1, "code 255 is unknown, codes are 0 to 17"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := dlpack.MakeDataType(c.code, c.bits, c.lanes).Validate()
			require.ErrorIs(t, err, dlpack.ErrDType)
			assert.EqualError(t, err, fmt.Sprintf("dtype = (code %d, bits %d, lanes %d): %s: unsupported data type", c.code, c.bits, c.lanes, c.why))
		})
	}
}

func TestNumBytesKnowsPacking(t *testing.T) {
	for _, c := range []struct {
		name           string
		dtype          dlpack.DataType
		count          int64
		packed, padded int64
	}{
		{"4 bits, (3, 5)", dlpack.Float4E2M1FN, 15, 8, 15},
		{"6 bits", dlpack.Float6E3M2FN, 3, 3, 3},
		{"6 bits, whole bytes", dlpack.Float6E3M2FN, 4, 3, 4},
		{"2 bits", dlpack.Int2, 5, 2, 5},
		{"12 bits", dlpack.MakeDataType(dlpack.CodeInt, 4, 3), 3, 5, 6},
		{"pairs", dlpack.Float4E2M1FNx2, 15, 15, 15},
		{"none", dlpack.Int4, 0, 0, 0},
		{"whole bytes", dlpack.Float32, 15, 60, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			packed := must.Do(c.dtype.NumBytes(c.count, false))(t)
			assert.Equal(t, c.packed, packed)
			padded := must.Do(c.dtype.NumBytes(c.count, true))(t)
			assert.Equal(t, c.padded, padded)
		})
	}
}

func TestNumBytesFitsOrRefuses(t *testing.T) {
	seven := big.NewInt(7)
	for _, c := range named {
		for _, padded := range []bool{false, true} {
			width := int64(c.dtype.BitSize())
			if padded {
				width = 8 * int64(c.dtype.ItemSize())
			}
			for shift := range 63 {
				for _, count := range []int64{1 << shift, 1<<shift - 1, math.MaxInt64 / (int64(shift) + 1)} {
					want := new(big.Int).Mul(big.NewInt(count), big.NewInt(width))
					want.Rsh(want.Add(want, seven), 3)
					got, err := c.dtype.NumBytes(count, padded)
					if want.IsInt64() {
						require.NoError(t, err)
						require.Equal(t, want.Int64(), got, "%d of %v", count, c.dtype)
						continue
					}
					require.ErrorIs(t, err, dlpack.ErrOverflow)
					require.EqualError(t, err, fmt.Sprintf("%d elements of %v: overflow", count, c.dtype))
				}
			}
		}
	}
	must.Fail(dlpack.Float32.NumBytes(-1, false))(t, dlpack.ErrLayout)
}

// Types that users define from Go's numbers are elements, too.
type (
	mask  bool
	index int
	phase complex64
)

func TestDataTypeOfGoNumbers(t *testing.T) {
	word := fmt.Sprint("int", 32<<(^uint(0)>>63))
	for _, c := range []struct {
		name string
		got  dlpack.DataType
	}{
		{"bool", dlpack.DataTypeOf[bool]()},
		{"int8", dlpack.DataTypeOf[int8]()},
		{"int16", dlpack.DataTypeOf[int16]()},
		{"int32", dlpack.DataTypeOf[int32]()},
		{"int64", dlpack.DataTypeOf[int64]()},
		{word, dlpack.DataTypeOf[int]()},
		{"uint8", dlpack.DataTypeOf[uint8]()},
		{"uint16", dlpack.DataTypeOf[uint16]()},
		{"uint32", dlpack.DataTypeOf[uint32]()},
		{"uint64", dlpack.DataTypeOf[uint64]()},
		{"u" + word, dlpack.DataTypeOf[uint]()},
		{"float32", dlpack.DataTypeOf[float32]()},
		{"float64", dlpack.DataTypeOf[float64]()},
		{"complex64", dlpack.DataTypeOf[complex64]()},
		{"complex128", dlpack.DataTypeOf[complex128]()},
		{"bool", dlpack.DataTypeOf[mask]()},
		{word, dlpack.DataTypeOf[index]()},
		{"complex64", dlpack.DataTypeOf[phase]()},
	} {
		assert.Equal(t, c.name, c.got.String())
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = dlpack.DataTypeOf[float32]() }))
}

// typeString matches NumPy's type strings of numbers.
var typeString = regexp.MustCompile(`^[<>=|]?(\?|b1|[iu][1248]|f[248]|c8|c16)$`)

// otherName matches NumPy's letters, and its names of C types.
var otherName = regexp.MustCompile(`^([<>=|]?[bhilqBHILQefdFD]|u?(byte|short|intc?|intp|long|longlong)|half|c?single|c?double|float|complex)$`)

func FuzzParseDataType(f *testing.F) {
	for _, c := range named {
		f.Add(c.name)
	}
	f.Add("float4_e2m1fn_x2")
	f.Add("<c16")
	f.Fuzz(func(t *testing.T, text string) {
		dt, err := dlpack.ParseDataType(text)
		if err != nil {
			require.ErrorIs(t, err, dlpack.ErrDType)
			return
		}
		require.NoError(t, dt.Validate())
		if typeString.MatchString(text) {
			size := strings.TrimLeft(text, "<>=|?biufc")
			require.True(t, size == "" && dt == dlpack.Bool || size == strconv.Itoa(dt.ItemSize()), "%q is %v", text, dt)
			return
		}
		if text != dt.String() && !otherName.MatchString(text) {
			plain := strings.Replace(text, "_x", "x", 1)
			if strings.HasPrefix(plain, "handle") && !strings.HasPrefix(plain, "handle64") {
				plain = "handle64" + plain[len("handle"):]
			}
			require.Equal(t, dt.String(), plain, "the other spellings are these two")
		}
	})
}

func BenchmarkDataType(b *testing.B) {
	b.Run("Of", func(b *testing.B) {
		for b.Loop() {
			_ = dlpack.DataTypeOf[float32]()
		}
	})
	b.Run("Validate", func(b *testing.B) {
		for b.Loop() {
			_ = dlpack.Float64.Validate()
		}
	})
	b.Run("NumBytes", func(b *testing.B) {
		for b.Loop() {
			_, _ = dlpack.Float64.NumBytes(1<<20, false)
		}
	})
}

func TestParseDataTypeReadsTypeStringsOfNumPy(t *testing.T) {
	for text, want := range map[string]dlpack.DataType{
		"?": dlpack.Bool, "|b1": dlpack.Bool, "|i1": dlpack.Int8, "i1": dlpack.Int8, "|u1": dlpack.Uint8, ">u1": dlpack.Uint8,
		"=i2": dlpack.Int16, "u2": dlpack.Uint16, "=i4": dlpack.Int32, "u4": dlpack.Uint32, "=i8": dlpack.Int64, "u8": dlpack.Uint64,
		"f2": dlpack.Float16, "=f4": dlpack.Float32, "f8": dlpack.Float64, "c8": dlpack.Complex64, "=c16": dlpack.Complex128,
		"float32": dlpack.Float32, "bfloat16": dlpack.BFloat16, "complex64": dlpack.Complex64, "int4": dlpack.Int4,
		"f": dlpack.Float32, "=d": dlpack.Float64, "L": dlpack.Uint64, "F": dlpack.Complex64, "|b": dlpack.Int8,
		"half": dlpack.Float16, "float": dlpack.Float64, "int": dlpack.Int64, "intc": dlpack.Int32, "complex": dlpack.Complex128,
	} {
		dt, err := dlpack.ParseDataType(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, dt, text)
	}
	dt, err := dlpack.ParseDataType("<f4")
	assert.NoError(t, err)
	assert.Equal(t, dlpack.Float32, dt)
	_, err = dlpack.ParseDataType(">f4")
	assert.ErrorIs(t, err, dlpack.ErrDType)
	assert.ErrorContains(t, err, "byte order")
	for _, text := range []string{"", "<", "<<f4", "g", ">f", "f16", "<half", "halfx2", "fx2", "<M8", "<float32", "f4<", "b2", "=", "V2", "<U1"} {
		_, err := dlpack.ParseDataType(text)
		assert.ErrorIs(t, err, dlpack.ErrDType, text)
	}
}

func ExampleParseDataType() {
	dt, err := dlpack.ParseDataType("float4_e2m1fnx2")
	fmt.Println(dt, dt.Bits(), dt.Lanes(), dt.ItemSize(), err)
	dt, err = dlpack.ParseDataType("<f8") // NumPy's spelling
	fmt.Println(dt, err)
	// Output:
	// float4_e2m1fnx2 4 2 1 <nil>
	// float64 <nil>
}

func ExampleDataType_NumBytes() {
	packed, _ := dlpack.Int4.NumBytes(15, false)
	padded, _ := dlpack.Int4.NumBytes(15, true)
	fmt.Println(packed, padded)
	// Output: 8 15
}
