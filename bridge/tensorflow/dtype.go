package tensorflow

import (
	"fmt"
	"log/slog"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// DType is the type of the elements of a tensor (types.proto, "DataType").
type DType int32

// The types of TensorFlow 2.21, under the names of DataType without DT_.
const (
	Float DType = 1 + iota
	Double
	Int32
	UInt8
	Int16
	Int8
	String
	Complex64
	Int64
	Bool
	QInt8
	QUInt8
	QInt32
	BFloat16
	QInt16
	QUInt16
	UInt16
	Complex128
	Half
	Resource // ResourceHandleProto
	Variant  // VariantTensorDataProto
	UInt32
	UInt64
	Float8E5M2
	Float8E4M3FN
	Float8E4M3FNUZ
	Float8E4M3B11FNUZ
	Float8E5M2FNUZ
	Int4
	UInt4
	Int2
	UInt2
	Float4E2M1FN
)

// The fields of TensorProto that hold elements (tensor.proto).
const (
	contentField  protowire.Number = 4
	floatField    protowire.Number = 5
	doubleField   protowire.Number = 6
	intField      protowire.Number = 7
	stringField   protowire.Number = 8
	scomplexField protowire.Number = 9
	int64Field    protowire.Number = 10
	boolField     protowire.Number = 11
	dcomplexField protowire.Number = 12
	halfField     protowire.Number = 13
	resourceField protowire.Number = 14
	variantField  protowire.Number = 15
	uint32Field   protowire.Number = 16
	uint64Field   protowire.Number = 17
	float8Field   protowire.Number = 18
)

// exchange says how far DLPack supports a type.
type exchange uint8

const (
	none    exchange = iota // DLPack does not have the type
	carried                 // DLPack has the type, but TensorFlow's own DLPack functions refuse it
	taken                   // tf.experimental.dlpack accepts and returns it
)

var kinds = [...]struct {
	name    string
	field   protowire.Number
	storage dlpack.DataType // of the elements in tensor_content; 0 where they have no fixed size
	dlpack  exchange
}{
	Float:             {"float", floatField, dlpack.Float32, taken},
	Double:            {"double", doubleField, dlpack.Float64, taken},
	Int32:             {"int32", intField, dlpack.Int32, taken},
	UInt8:             {"uint8", intField, dlpack.Uint8, taken},
	Int16:             {"int16", intField, dlpack.Int16, taken},
	Int8:              {"int8", intField, dlpack.Int8, taken},
	String:            {"string", stringField, 0, none},
	Complex64:         {"complex64", scomplexField, dlpack.Complex64, taken},
	Int64:             {"int64", int64Field, dlpack.Int64, taken},
	Bool:              {"bool", boolField, dlpack.Bool, taken},
	QInt8:             {"qint8", intField, dlpack.Int8, none},
	QUInt8:            {"quint8", intField, dlpack.Uint8, none},
	QInt32:            {"qint32", intField, dlpack.Int32, none},
	BFloat16:          {"bfloat16", halfField, dlpack.BFloat16, taken},
	QInt16:            {"qint16", intField, dlpack.Int16, none},
	QUInt16:           {"quint16", intField, dlpack.Uint16, none},
	UInt16:            {"uint16", intField, dlpack.Uint16, taken},
	Complex128:        {"complex128", dcomplexField, dlpack.Complex128, taken},
	Half:              {"half", halfField, dlpack.Float16, taken},
	Resource:          {"resource", resourceField, 0, none},
	Variant:           {"variant", variantField, 0, none},
	UInt32:            {"uint32", uint32Field, dlpack.Uint32, taken},
	UInt64:            {"uint64", uint64Field, dlpack.Uint64, taken},
	Float8E5M2:        {"float8_e5m2", float8Field, dlpack.Float8E5M2, carried},
	Float8E4M3FN:      {"float8_e4m3fn", float8Field, dlpack.Float8E4M3FN, carried},
	Float8E4M3FNUZ:    {"float8_e4m3fnuz", float8Field, dlpack.Float8E4M3FNUZ, carried},
	Float8E4M3B11FNUZ: {"float8_e4m3b11fnuz", float8Field, dlpack.Float8E4M3B11FNUZ, carried},
	Float8E5M2FNUZ:    {"float8_e5m2fnuz", float8Field, dlpack.Float8E5M2FNUZ, carried},
	Int4:              {"int4", intField, dlpack.Int4, carried},
	UInt4:             {"uint4", intField, dlpack.Uint4, carried},
	Int2:              {"int2", intField, dlpack.Int2, carried},
	UInt2:             {"uint2", intField, dlpack.Uint2, carried},
	Float4E2M1FN:      {"float4_e2m1fn", float8Field, dlpack.Float4E2M1FN, carried},
}

func (d DType) valid() bool { return d >= Float && int(d) < len(kinds) }

// String returns TensorFlow's name for the type, such as float, qint8 or float8_e5m2.
func (d DType) String() string {
	if !d.valid() {
		return "dtype " + strconv.Itoa(int(d))
	}
	return kinds[d].name
}

// ParseDType returns the type with the given name, as [DType.String] returns it.
//
// Errors: [elements.ErrDType].
func ParseDType(name string) (DType, error) {
	for d := Float; d.valid(); d++ {
		if kinds[d].name == name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("tensorflow: %.40q is not a type of TensorFlow: %w", name, elements.ErrDType)
}

// LogValue implements [slog.LogValuer]: a log line shows the name that [DType.String] returns.
func (d DType) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText implements [encoding.TextMarshaler]: in JSON a type is its name, such as "float".
//
// Errors: [elements.ErrDType] for an invalid type.
func (d DType) MarshalText() ([]byte, error) {
	if !d.valid() {
		return nil, fmt.Errorf("tensorflow: marshal text: %v is not a type: %w", d, elements.ErrDType)
	}
	return []byte(d.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts the names that [ParseDType] accepts.
//
// Errors: as ParseDType; d is unchanged then.
func (d *DType) UnmarshalText(text []byte) error {
	parsed, err := ParseDType(string(text))
	if err == nil {
		*d = parsed
	}
	return err
}

// DataType returns the DLPack data type with the same elements, or 0 if there is none. In TensorFlow elements of less
// than a byte take a byte each, so their DLPack tensors are padded.
func (d DType) DataType() dlpack.DataType {
	if !d.valid() || kinds[d].dlpack == none {
		return 0
	}
	return kinds[d].storage
}

// Storage returns the DLPack data type of the elements in memory: the type that [DType.DataType] returns, or the
// integer type of a quantised type. It returns 0 for strings, resources and variants, whose elements have no fixed
// size.
func (d DType) Storage() dlpack.DataType {
	if !d.valid() {
		return 0
	}
	return kinds[d].storage
}

// DTypeOf returns the type for a DLPack data type: the inverse of [DType.DataType].
//
// Errors: [elements.ErrDType].
func DTypeOf(dt dlpack.DataType) (DType, error) {
	for d := Float; d.valid(); d++ {
		if kinds[d].storage == dt && kinds[d].dlpack != none {
			return d, nil
		}
	}
	return 0, fmt.Errorf("tensorflow: %v is not a type of TensorFlow; convert the tensor to another type: %w", dt, elements.ErrDType)
}

// integer describes the varints that stand for the elements of a type: the number of low bits that count, and the
// smallest and the largest accepted value. A signed type of less than a byte also accepts the values of the unsigned
// type with the same bits.
type integer struct {
	bits      int
	low, high int64
}

// integerOf returns the integer for a type of at most 32 bits whose field has varints.
func integerOf(dt dlpack.DataType) integer {
	n := integer{bits: int(dt.Bits())}
	n.high = 1<<n.bits - 1
	if dt.Code() == dlpack.CodeInt {
		n.low = -1 << (n.bits - 1)
		if n.bits >= 8 {
			n.high >>= 1
		}
	}
	return n
}
