package dlpack

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// TypeCode says what the bits of a number mean (DLPack C API, "DLDataTypeCode").
//
// C: DLDataTypeCode
type TypeCode uint8

// The type codes of DLPack 1.3.
const (
	CodeInt TypeCode = iota
	CodeUInt
	CodeFloat
	CodeOpaqueHandle
	CodeBFloat
	CodeComplex // bits count both parts
	CodeBool
	CodeFloat8E3M4
	CodeFloat8E4M3
	CodeFloat8E4M3B11FNUZ
	CodeFloat8E4M3FN
	CodeFloat8E4M3FNUZ
	CodeFloat8E5M2
	CodeFloat8E5M2FNUZ
	CodeFloat8E8M0FNU
	CodeFloat6E2M3FN
	CodeFloat6E3M2FN
	CodeFloat4E2M1FN
)

// kinds has the name of each code and the widths in use, in bits. If sized is set, the width is part of the name of a type;
// otherwise there is only one width.
//
// Integers of 2 and 4 bits are in use (ml_dtypes, PyTorch). Integers of 1 bit are refused: in old producers they are
// packed bools. Floats of 128 bits are refused because nothing states whether they have the format of x87 or that of
// IEEE.
var kinds = [...]struct {
	name   string
	sized  bool
	widths []uint8
}{
	CodeInt:               {"int", true, []uint8{2, 4, 8, 16, 32, 64}},
	CodeUInt:              {"uint", true, []uint8{2, 4, 8, 16, 32, 64}},
	CodeFloat:             {"float", true, []uint8{16, 32, 64}},
	CodeOpaqueHandle:      {"handle", true, []uint8{8, 16, 32, 64, 128}},
	CodeBFloat:            {"bfloat", true, []uint8{16}},
	CodeComplex:           {"complex", true, []uint8{32, 64, 128}},
	CodeBool:              {"bool", false, []uint8{8}},
	CodeFloat8E3M4:        {"float8_e3m4", false, []uint8{8}},
	CodeFloat8E4M3:        {"float8_e4m3", false, []uint8{8}},
	CodeFloat8E4M3B11FNUZ: {"float8_e4m3b11fnuz", false, []uint8{8}},
	CodeFloat8E4M3FN:      {"float8_e4m3fn", false, []uint8{8}},
	CodeFloat8E4M3FNUZ:    {"float8_e4m3fnuz", false, []uint8{8}},
	CodeFloat8E5M2:        {"float8_e5m2", false, []uint8{8}},
	CodeFloat8E5M2FNUZ:    {"float8_e5m2fnuz", false, []uint8{8}},
	CodeFloat8E8M0FNU:     {"float8_e8m0fnu", false, []uint8{8}},
	CodeFloat6E2M3FN:      {"float6_e2m3fn", false, []uint8{6}},
	CodeFloat6E3M2FN:      {"float6_e3m2fn", false, []uint8{6}},
	CodeFloat4E2M1FN:      {"float4_e2m1fn", false, []uint8{4}},
}

// DataType is the type of an element: one or more numbers (lanes) of the same width, in native byte order (DLPack C
// API, "DLDataType"). Its value has the bits of the C struct, so that the standard types are constants.
//
// C: DLDataType
type DataType uint32

const lane DataType = 1 << 16

// The types in common use. [MakeDataType] makes any other type.
const (
	Bool DataType = DataType(CodeBool) | 8<<8 | lane

	Int2  DataType = DataType(CodeInt) | 2<<8 | lane
	Int4  DataType = DataType(CodeInt) | 4<<8 | lane
	Int8  DataType = DataType(CodeInt) | 8<<8 | lane
	Int16 DataType = DataType(CodeInt) | 16<<8 | lane
	Int32 DataType = DataType(CodeInt) | 32<<8 | lane
	Int64 DataType = DataType(CodeInt) | 64<<8 | lane

	Uint2  DataType = DataType(CodeUInt) | 2<<8 | lane
	Uint4  DataType = DataType(CodeUInt) | 4<<8 | lane
	Uint8  DataType = DataType(CodeUInt) | 8<<8 | lane
	Uint16 DataType = DataType(CodeUInt) | 16<<8 | lane
	Uint32 DataType = DataType(CodeUInt) | 32<<8 | lane
	Uint64 DataType = DataType(CodeUInt) | 64<<8 | lane

	Float16  DataType = DataType(CodeFloat) | 16<<8 | lane
	Float32  DataType = DataType(CodeFloat) | 32<<8 | lane
	Float64  DataType = DataType(CodeFloat) | 64<<8 | lane
	BFloat16 DataType = DataType(CodeBFloat) | 16<<8 | lane

	Complex32  DataType = DataType(CodeComplex) | 32<<8 | lane
	Complex64  DataType = DataType(CodeComplex) | 64<<8 | lane
	Complex128 DataType = DataType(CodeComplex) | 128<<8 | lane

	Float8E3M4        DataType = DataType(CodeFloat8E3M4) | 8<<8 | lane
	Float8E4M3        DataType = DataType(CodeFloat8E4M3) | 8<<8 | lane
	Float8E4M3B11FNUZ DataType = DataType(CodeFloat8E4M3B11FNUZ) | 8<<8 | lane
	Float8E4M3FN      DataType = DataType(CodeFloat8E4M3FN) | 8<<8 | lane
	Float8E4M3FNUZ    DataType = DataType(CodeFloat8E4M3FNUZ) | 8<<8 | lane
	Float8E5M2        DataType = DataType(CodeFloat8E5M2) | 8<<8 | lane
	Float8E5M2FNUZ    DataType = DataType(CodeFloat8E5M2FNUZ) | 8<<8 | lane
	Float8E8M0FNU     DataType = DataType(CodeFloat8E8M0FNU) | 8<<8 | lane

	Float6E2M3FN DataType = DataType(CodeFloat6E2M3FN) | 6<<8 | lane
	Float6E3M2FN DataType = DataType(CodeFloat6E3M2FN) | 6<<8 | lane

	Float4E2M1FN   DataType = DataType(CodeFloat4E2M1FN) | 4<<8 | lane
	Float4E2M1FNx2 DataType = DataType(CodeFloat4E2M1FN) | 4<<8 | 2*lane // two to a byte, PyTorch's form

	OpaqueHandle64 DataType = DataType(CodeOpaqueHandle) | 64<<8 | lane
)

// MakeDataType returns the type with the given code, bits and lanes. It checks nothing; see [DataType.Validate].
func MakeDataType(code TypeCode, bits uint8, lanes uint16) DataType {
	return DataType(code) | DataType(bits)<<8 | DataType(lanes)<<16
}

// Code returns the type code, which says what the bits mean.
func (dt DataType) Code() TypeCode { return TypeCode(dt) }

// Bits returns the width of one number, in bits.
func (dt DataType) Bits() uint8 { return uint8(dt >> 8) }

// Lanes returns the number of numbers in one element.
func (dt DataType) Lanes() uint16 { return uint16(dt >> 16) }

// BitSize returns the width of one element, with all its lanes, in bits.
func (dt DataType) BitSize() int { return int(dt.Bits()) * int(dt.Lanes()) }

// ItemSize returns the size of one element in bytes, rounded up to whole bytes.
func (dt DataType) ItemSize() int { return (dt.BitSize() + 7) / 8 }

// IsSubByte reports whether an element does not fill whole bytes. Elements of such a type are packed or padded.
func (dt DataType) IsSubByte() bool { return dt.BitSize()%8 != 0 }

// NumBytes returns the size in bytes of count elements without gaps. Sub-byte elements are packed without unused bits or,
// if padded is true, begin at a new byte each (DLPack C API, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED).
//
// Errors: [ErrOverflow], and [ErrLayout] for a negative count. Their texts do not begin with "dlpack: ".
func (dt DataType) NumBytes(count int64, padded bool) (int64, error) {
	if count < 0 {
		return 0, fmt.Errorf("%d elements, must not be negative: %w", count, ErrLayout)
	}
	width := int64(dt.BitSize())
	if padded {
		width = 8 * int64(dt.ItemSize())
	}
	whole, fits := extent.Mul(count/8, width) // 8 elements are whole bytes
	size, fits2 := extent.Add(whole, (count%8*width+7)/8)
	if !fits || !fits2 {
		return 0, fmt.Errorf("%d elements of %v: %w", count, dt, ErrOverflow)
	}
	return size, nil
}

// Validate returns an error unless DLPack 1.3 defines the type code and the width is in use. Any number of lanes except 0
// is valid.
//
// Errors: [ErrDType]. Its text does not begin with "dlpack: ".
func (dt DataType) Validate() error {
	if int(dt.Code()) < len(kinds) && dt.Lanes() > 0 {
		for _, width := range kinds[dt.Code()].widths { // faster than slices.Contains
			if width == dt.Bits() {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: %w", dt.refusal(), ErrDType)
}

// refusal returns a text that says which of the three numbers is invalid, and which values are valid. C: refuse_dtype
func (dt DataType) refusal() string {
	why := "lanes must be at least 1"
	if int(dt.Code()) >= len(kinds) {
		why = fmt.Sprintf("code %d is unknown, codes are 0 to %d", dt.Code(), len(kinds)-1)
	} else if kind := kinds[dt.Code()]; !slices.Contains(kind.widths, dt.Bits()) {
		widths := strings.ReplaceAll(strings.Trim(fmt.Sprint(kind.widths), "[]"), " ", ", ")
		why = fmt.Sprintf("%s has %s bits, not %d", kind.name, widths, dt.Bits())
	}
	return fmt.Sprintf("dtype = %s: %s", dt.numbers(), why)
}

func (dt DataType) numbers() string {
	return fmt.Sprintf("(code %d, bits %d, lanes %d)", dt.Code(), dt.Bits(), dt.Lanes())
}

// String returns the name of the type, such as "float32", "float8_e4m3fn" or, with lanes, "float32x4". For an invalid type
// it returns the code, the bits and the lanes as numbers.
func (dt DataType) String() string {
	if dt.Validate() != nil {
		return dt.numbers()
	}
	kind := kinds[dt.Code()]
	name := kind.name
	if kind.sized {
		name += strconv.Itoa(int(dt.Bits()))
	}
	if dt.Lanes() > 1 {
		name += "x" + strconv.Itoa(int(dt.Lanes()))
	}
	return name
}

// LogValue implements [slog.LogValuer]: in a log line the type is the text of [DataType.String].
func (dt DataType) LogValue() slog.Value { return slog.StringValue(dt.String()) }

// MarshalText implements [encoding.TextMarshaler], so that a type is "float32" in JSON. The zero DataType is invalid; the option omitzero
// leaves out a field that is not set.
//
// Errors: [ErrDType] for an invalid type.
func (dt DataType) MarshalText() ([]byte, error) {
	if dt.Validate() != nil {
		return nil, &Error{Op: "marshal text", Where: dt.refusal(), Err: ErrDType}
	}
	return []byte(dt.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It reads what [ParseDataType] reads.
//
// Errors: as ParseDataType; dt is unchanged then.
func (dt *DataType) UnmarshalText(text []byte) error {
	parsed, err := ParseDataType(string(text))
	if err != nil {
		return err
	}
	*dt = parsed
	return nil
}

// ParseDataType parses the text that [DataType.String] returns for valid types: the names of the array API standard. It also
// accepts "handle" for handle64, and an underscore before the lanes, as in PyTorch's "float4_e2m1fn_x2". It accepts NumPy's
// names of numbers and bools, too: type strings ("<f4", "|b1", "i8"), letters ("f", "?"), and names of C types ("half",
// "double", "float" for float64, "int" for int64). The comment of dlb_dtype_parse in dlbridge.h lists them.
//
// Errors: [ErrDType], also for a NumPy type string in a byte order other than this machine's.
func ParseDataType(text string) (DataType, error) {
	refuse := func(format string, args ...any) error {
		return &Error{Op: "parse data type", Where: fmt.Sprintf(format, args...), Err: ErrDType}
	}
	if dt, ok := typesByName()[text]; ok {
		return dt, nil
	}
	if dt, ok := numpyNames[text]; ok {
		return dt, nil
	}
	unordered := text
	if text != "" && strings.Contains("<>=|", text[:1]) {
		unordered = text[1:]
	}
	if dt, ok := numpyTypes[unordered]; ok {
		if dt.ItemSize() > 1 && text[0] == '>' {
			return 0, refuse("%q: DLPack has elements in the byte order of this machine only; swap the bytes first", text)
		}
		return dt, nil
	}
	if at := strings.LastIndexByte(text, 'x'); at > 0 {
		dt, ok := typesByName()[strings.TrimSuffix(text[:at], "_")]
		lanes, err := strconv.ParseUint(text[at+1:], 10, 16)
		if ok && err == nil && lanes > 1 && text[at+1] != '0' {
			return dt - lane + DataType(lanes)*lane, nil
		}
	}
	return 0, refuse(`%.40q is not like "float32" or "<f4"`, text)
}

// numpyTypes has NumPy's type strings and letters, without the character for the byte order that may precede them.
var numpyTypes = map[string]DataType{
	"?": Bool, "b1": Bool, "i1": Int8, "i2": Int16, "i4": Int32, "i8": Int64, "u1": Uint8, "u2": Uint16, "u4": Uint32, "u8": Uint64,
	"f2": Float16, "f4": Float32, "f8": Float64, "c8": Complex64, "c16": Complex128,
	"b": Int8, "h": Int16, "i": Int32, "l": Int64, "q": Int64, "B": Uint8, "H": Uint16, "I": Uint32, "L": Uint64, "Q": Uint64,
	"e": Float16, "f": Float32, "d": Float64, "F": Complex64, "D": Complex128,
}

// numpyNames has NumPy's names of C types. Their sizes are those of 64-bit Linux, on every machine.
var numpyNames = map[string]DataType{
	"byte": Int8, "short": Int16, "intc": Int32, "int": Int64, "long": Int64, "longlong": Int64, "intp": Int64,
	"ubyte": Uint8, "ushort": Uint16, "uintc": Uint32, "uint": Uint64, "ulong": Uint64, "ulonglong": Uint64, "uintp": Uint64,
	"half": Float16, "single": Float32, "double": Float64, "float": Float64,
	"csingle": Complex64, "cdouble": Complex128, "complex": Complex128,
}

// typesByName maps names to the valid types with one lane.
var typesByName = sync.OnceValue(func() map[string]DataType {
	types := map[string]DataType{"handle": OpaqueHandle64}
	for code, kind := range kinds {
		for _, width := range kind.widths {
			dt := MakeDataType(TypeCode(code), width, 1)
			types[dt.String()] = dt
		}
	}
	return types
})

// Element is satisfied by the Go types for which DLPack has a data type. Go lacks some data types, such as float16. Their
// elements cannot be accessed as integers of the same size, because their bits are not integers.
type Element interface {
	~bool | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// goTypes maps each data type that Go has to its Go type.
var goTypes = map[DataType]reflect.Type{
	Bool: reflect.TypeFor[bool](),
	Int8: reflect.TypeFor[int8](), Int16: reflect.TypeFor[int16](), Int32: reflect.TypeFor[int32](), Int64: reflect.TypeFor[int64](),
	Uint8: reflect.TypeFor[uint8](), Uint16: reflect.TypeFor[uint16](), Uint32: reflect.TypeFor[uint32](), Uint64: reflect.TypeFor[uint64](),
	Float32: reflect.TypeFor[float32](), Float64: reflect.TypeFor[float64](),
	Complex64: reflect.TypeFor[complex64](), Complex128: reflect.TypeFor[complex128](),
}

// elementTypes has the data type for each reflect.Kind of bools and numbers.
var elementTypes = func() (types [reflect.Complex128 + 1]DataType) {
	for dt, goType := range goTypes {
		types[goType.Kind()] = dt
	}
	types[reflect.Int] = MakeDataType(CodeInt, strconv.IntSize, 1)
	types[reflect.Uint] = MakeDataType(CodeUInt, strconv.IntSize, 1)
	return types
}()

// DataTypeOf returns the data type of a Go type. int and uint have the width of this machine.
func DataTypeOf[T Element]() DataType { return elementTypes[reflect.TypeFor[T]().Kind()] }
