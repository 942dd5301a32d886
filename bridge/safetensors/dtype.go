package safetensors

import (
	"fmt"
	"log/slog"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack"
)

// DType is the type of the elements of a tensor. The reference writes tensors of the last type first, and of the first
// type last.
type DType uint8

// The types of safetensors 0.8.
const (
	BOOL   DType = 1 + iota
	F4           // float4_e2m1fn, two to a byte
	F6E2M3       // float6_e2m3fn, four to three bytes
	F6E3M2       // float6_e3m2fn, four to three bytes
	U8
	I8
	F8E5M2
	F8E4M3 // float8_e4m3fn
	F8E8M0 // float8_e8m0fnu
	F8E4M3FNUZ
	F8E5M2FNUZ
	I16
	U16
	F16
	BF16
	I32
	U32
	F32
	C64
	F64
	I64
	U64
)

var dtypes = [...]struct {
	name  string
	dtype dlpack.DataType
}{
	BOOL:       {"BOOL", dlpack.Bool},
	F4:         {"F4", dlpack.Float4E2M1FN},
	F6E2M3:     {"F6_E2M3", dlpack.Float6E2M3FN},
	F6E3M2:     {"F6_E3M2", dlpack.Float6E3M2FN},
	U8:         {"U8", dlpack.Uint8},
	I8:         {"I8", dlpack.Int8},
	F8E5M2:     {"F8_E5M2", dlpack.Float8E5M2},
	F8E4M3:     {"F8_E4M3", dlpack.Float8E4M3FN},
	F8E8M0:     {"F8_E8M0", dlpack.Float8E8M0FNU},
	F8E4M3FNUZ: {"F8_E4M3FNUZ", dlpack.Float8E4M3FNUZ},
	F8E5M2FNUZ: {"F8_E5M2FNUZ", dlpack.Float8E5M2FNUZ},
	I16:        {"I16", dlpack.Int16},
	U16:        {"U16", dlpack.Uint16},
	F16:        {"F16", dlpack.Float16},
	BF16:       {"BF16", dlpack.BFloat16},
	I32:        {"I32", dlpack.Int32},
	U32:        {"U32", dlpack.Uint32},
	F32:        {"F32", dlpack.Float32},
	C64:        {"C64", dlpack.Complex64},
	F64:        {"F64", dlpack.Float64},
	I64:        {"I64", dlpack.Int64},
	U64:        {"U64", dlpack.Uint64},
}

func (d DType) valid() bool { return d >= BOOL && int(d) < len(dtypes) }

// String returns the name of the type in a header, such as F32 or F8_E4M3.
func (d DType) String() string {
	if !d.valid() {
		return fmt.Sprintf("dtype %d", uint8(d))
	}
	return dtypes[d].name
}

// LogValue implements [slog.LogValuer]: a log line shows the name that [DType.String] returns.
func (d DType) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText implements [encoding.TextMarshaler]: in JSON the type is its name.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDType returns the type with the given name, as [DType.String] returns it.
//
// Errors: [elements.ErrDType].
func ParseDType(name string) (DType, error) {
	if d := parseDType([]byte(name)); d != 0 {
		return d, nil
	}
	return 0, fmt.Errorf("safetensors: %s is not a type of safetensors: %w", errtext.Quote(name), elements.ErrDType)
}

// parseDType returns 0 if there is no type of that name.
func parseDType(name []byte) DType {
	for d := U64; d.valid(); d-- { // floating-point types of weights come early
		if string(name) == dtypes[d].name {
			return d
		}
	}
	return 0
}

// DataType returns the DLPack data type with the same elements, or 0 for an invalid type.
func (d DType) DataType() dlpack.DataType {
	if !d.valid() {
		return 0
	}
	return dtypes[d].dtype
}

// DTypeOf returns the type for a DLPack data type: the inverse of [DType.DataType].
//
// Errors: [elements.ErrDType].
func DTypeOf(dt dlpack.DataType) (DType, error) {
	for d := BOOL; d.valid(); d++ {
		if dtypes[d].dtype == dt {
			return d, nil
		}
	}
	return 0, fmt.Errorf("safetensors: %v is not a type of safetensors; convert the tensor to another type: %w", dt, elements.ErrDType)
}
