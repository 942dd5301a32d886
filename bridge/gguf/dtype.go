package gguf

import (
	"fmt"
	"log/slog"

	"github.com/dlbridge/dlbridge/dlpack"
)

// DType is the type of the elements of a tensor. Its value is the number in the file (ggml_type in ggml.h).
type DType uint32

// The types of ggml, without the types that ggml has removed. The names are those of the Python package gguf.
const (
	F32     DType = 0
	F16     DType = 1
	Q4_0    DType = 2
	Q4_1    DType = 3
	Q5_0    DType = 6
	Q5_1    DType = 7
	Q8_0    DType = 8
	Q8_1    DType = 9
	Q2_K    DType = 10
	Q3_K    DType = 11
	Q4_K    DType = 12
	Q5_K    DType = 13
	Q6_K    DType = 14
	Q8_K    DType = 15
	IQ2_XXS DType = 16
	IQ2_XS  DType = 17
	IQ3_XXS DType = 18
	IQ1_S   DType = 19
	IQ4_NL  DType = 20
	IQ3_S   DType = 21
	IQ2_S   DType = 22
	IQ4_XS  DType = 23
	I8      DType = 24
	I16     DType = 25
	I32     DType = 26
	I64     DType = 27
	F64     DType = 28
	IQ1_M   DType = 29
	BF16    DType = 30
	TQ1_0   DType = 34
	TQ2_0   DType = 35
	MXFP4   DType = 39
	NVFP4   DType = 40
	Q1_0    DType = 41
	Q2_0    DType = 42
)

// dtypes has the types by number. A number without a name is not a type.
var dtypes = [...]struct {
	name  string
	block int64           // elements of a block
	bytes int64           // bytes of a block
	dtype dlpack.DataType // 0 for quantised types
}{
	F32:     {"F32", 1, 4, dlpack.Float32},
	F16:     {"F16", 1, 2, dlpack.Float16},
	Q4_0:    {"Q4_0", 32, 18, 0},
	Q4_1:    {"Q4_1", 32, 20, 0},
	Q5_0:    {"Q5_0", 32, 22, 0},
	Q5_1:    {"Q5_1", 32, 24, 0},
	Q8_0:    {"Q8_0", 32, 34, 0},
	Q8_1:    {"Q8_1", 32, 36, 0},
	Q2_K:    {"Q2_K", 256, 84, 0},
	Q3_K:    {"Q3_K", 256, 110, 0},
	Q4_K:    {"Q4_K", 256, 144, 0},
	Q5_K:    {"Q5_K", 256, 176, 0},
	Q6_K:    {"Q6_K", 256, 210, 0},
	Q8_K:    {"Q8_K", 256, 292, 0},
	IQ2_XXS: {"IQ2_XXS", 256, 66, 0},
	IQ2_XS:  {"IQ2_XS", 256, 74, 0},
	IQ3_XXS: {"IQ3_XXS", 256, 98, 0},
	IQ1_S:   {"IQ1_S", 256, 50, 0},
	IQ4_NL:  {"IQ4_NL", 32, 18, 0},
	IQ3_S:   {"IQ3_S", 256, 110, 0},
	IQ2_S:   {"IQ2_S", 256, 82, 0},
	IQ4_XS:  {"IQ4_XS", 256, 136, 0},
	I8:      {"I8", 1, 1, dlpack.Int8},
	I16:     {"I16", 1, 2, dlpack.Int16},
	I32:     {"I32", 1, 4, dlpack.Int32},
	I64:     {"I64", 1, 8, dlpack.Int64},
	F64:     {"F64", 1, 8, dlpack.Float64},
	IQ1_M:   {"IQ1_M", 256, 56, 0},
	BF16:    {"BF16", 1, 2, dlpack.BFloat16},
	TQ1_0:   {"TQ1_0", 256, 54, 0},
	TQ2_0:   {"TQ2_0", 256, 66, 0},
	MXFP4:   {"MXFP4", 32, 17, 0},
	NVFP4:   {"NVFP4", 64, 36, 0},
	Q1_0:    {"Q1_0", 128, 18, 0},
	Q2_0:    {"Q2_0", 64, 18, 0},
}

// known reports whether the type is one of the constants.
func (t DType) known() bool { return t < DType(len(dtypes)) && dtypes[t].name != "" }

// DataType returns the DLPack type of the elements, and 0 for quantised and unknown types.
func (t DType) DataType() dlpack.DataType {
	if !t.known() {
		return 0
	}
	return dtypes[t].dtype
}

// Block returns the number of elements of a block, and its size in bytes. A block of a DLPack type has one element, and
// a block of an unknown type has none.
func (t DType) Block() (elements, bytes int64) {
	if !t.known() {
		return 0, 0
	}
	return dtypes[t].block, dtypes[t].bytes
}

// String returns the name of the type, such as "Q4_K".
func (t DType) String() string {
	if !t.known() {
		return fmt.Sprintf("DType(%d)", uint32(t))
	}
	return dtypes[t].name
}

// LogValue implements [slog.LogValuer]: in a log line the type is its name.
func (t DType) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements [encoding.TextMarshaler]: in JSON the type is its name.
func (t DType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
