package decthings

import (
	"fmt"
	"log/slog"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// Type is the type of an element. Its value is the number in the binary form (Decthings, "Binary format").
type Type uint8

// The types of Decthings.
const (
	F32 Type = 1 + iota
	F64
	I8
	I16
	I32
	I64
	U8
	U16
	U32
	U64
	String
	Binary
	Boolean
	Image
	Audio
	Video
)

var types = [...]struct {
	name  string
	dtype dlpack.DataType // 0 for elements of variable size
}{
	F32:     {"f32", dlpack.Float32},
	F64:     {"f64", dlpack.Float64},
	I8:      {"i8", dlpack.Int8},
	I16:     {"i16", dlpack.Int16},
	I32:     {"i32", dlpack.Int32},
	I64:     {"i64", dlpack.Int64},
	U8:      {"u8", dlpack.Uint8},
	U16:     {"u16", dlpack.Uint16},
	U32:     {"u32", dlpack.Uint32},
	U64:     {"u64", dlpack.Uint64},
	String:  {name: "string"},
	Binary:  {name: "binary"},
	Boolean: {"boolean", dlpack.Bool},
	Image:   {name: "image"},
	Audio:   {name: "audio"},
	Video:   {name: "video"},
}

func (t Type) valid() bool { return t >= F32 && int(t) < len(types) }

// media reports whether each element has a media format.
func (t Type) media() bool { return t >= Image }

// String returns the name of the type in rules, such as f32.
func (t Type) String() string {
	if !t.valid() {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return types[t].name
}

// ParseType returns the type with the given name, as [Type.String] returns it. Errors: [ErrType].
func ParseType(name string) (Type, error) {
	for t := F32; t.valid(); t++ {
		if types[t].name == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("decthings: %w", unknownType(name))
}

// unknownType returns an error, without a prefix, for the name of a type that does not exist.
func unknownType(name string) error {
	names := make([]Type, 0, len(types))
	for t := F32; t.valid(); t++ {
		names = append(names, t)
	}
	return fmt.Errorf("%.40q is not one of %v: %w", name, names, ErrType)
}

// LogValue implements [slog.LogValuer]: a log line shows the name that [Type.String] returns.
func (t Type) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements [encoding.TextMarshaler]: in JSON a type is its name, such as "f32".
//
// Errors: [ErrType] for an invalid type.
func (t Type) MarshalText() ([]byte, error) {
	if !t.valid() {
		return nil, fmt.Errorf("decthings: marshal text: %v is not a type: %w", t, ErrType)
	}
	return []byte(t.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts the names that [ParseType] accepts.
//
// Errors: as ParseType; t is unchanged then.
func (t *Type) UnmarshalText(text []byte) error {
	parsed, err := ParseType(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// DataType returns the DLPack data type for numbers and booleans, and 0 for types whose elements are of variable size.
func (t Type) DataType() dlpack.DataType {
	if !t.valid() {
		return 0
	}
	return types[t].dtype
}

// TypeOf returns the type for a DLPack data type. Errors: [elements.ErrDType].
func TypeOf(dt dlpack.DataType) (Type, error) {
	for t := F32; t.valid(); t++ {
		if types[t].dtype == dt && dt != 0 {
			return t, nil
		}
	}
	return 0, fmt.Errorf("decthings: %v is not a type of Decthings; convert the tensor to another type: %w", dt, elements.ErrDType)
}

// Dialect is the encoding of elements of variable size. In every dialect a varint with the length in bytes precedes
// each element. The zero value is [Doc].
type Dialect uint8

const (
	// Doc is the dialect of the published document. Nothing precedes the first element. A media element is three bytes
	// of ASCII for its format, followed by its content.
	Doc Dialect = iota
	// Py004 is the dialect of the Python client up to 0.0.4, the Rust crate up to 0.1.3 and the JavaScript client up to
	// 0.5.9. A varint with the size of all elements precedes the first element. A media element is three bytes of UTF-8
	// for its format, followed by its content.
	Py004
	// Rs015 is the dialect of the Rust crate from 0.1.4 and the JavaScript client from 0.5.10. It differs from Py004 in
	// one point: the format of a media element is a byte with its length, followed by up to 255 bytes of UTF-8.
	Rs015
)

var dialects = [...]string{Doc: "doc", Py004: "py004", Rs015: "rs015"}

// String returns the name of the dialect, such as doc.
func (d Dialect) String() string {
	if int(d) >= len(dialects) {
		return fmt.Sprintf("dialect %d", uint8(d))
	}
	return dialects[d]
}

// ParseDialect returns the dialect with the given name, as [Dialect.String] returns it. Errors: [ErrDialect].
func ParseDialect(name string) (Dialect, error) {
	for d, n := range dialects {
		if n == name {
			return Dialect(d), nil
		}
	}
	return 0, fmt.Errorf("decthings: %.40q is not one of %v: %w", name, dialects, ErrDialect)
}
