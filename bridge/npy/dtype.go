package npy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack"
)

// An element describes an element as NumPy's name of its type does.
type element struct {
	dtype     dlpack.DataType
	raw       int // the size in bytes if the name gives only a size: the element becomes a dimension of uint8
	bigEndian bool
}

// unsupported has the kinds of types that are refused, by letter.
var unsupported = map[byte]string{
	'O': "it stands for pickled objects, and pickles are never read",
	'U': "it stands for unicode texts, which DLPack lacks",
	'S': "it stands for byte strings, which DLPack lacks",
	'a': "it stands for byte strings, which DLPack lacks",
	'M': "it stands for datetime64, which DLPack lacks",
	'm': "it stands for timedelta64, which DLPack lacks",
	'T': "it stands for texts of variable size, which DLPack lacks",
}

// elementOf decodes a type string such as "<f4".
//
// Errors, without a prefix: [elements.ErrDType].
func elementOf(text string) (e element, err error) {
	refuse := func(why string) (element, error) {
		return element{}, fmt.Errorf("the type %s: %s: %w", errtext.Quote(text), why, elements.ErrDType)
	}
	if len(text) < 2 || strings.IndexByte("<>|", text[0]) < 0 {
		return refuse("want a type that NumPy writes, such as '<f4'")
	}
	order, kind, number := text[0], text[1], text[2:]
	if what, ok := unsupported[kind]; ok {
		return refuse(what)
	}
	size, err := strconv.ParseUint(number, 10, 31)
	if err != nil || strconv.FormatUint(size, 10) != number {
		return refuse("want a type that NumPy writes, such as '<f4'")
	}
	switch {
	case kind == 'V' && order != '>' && size > 0:
		return element{dtype: dlpack.Uint8, raw: int(size)}, nil
	case kind == 'f' && size == 1 && order != '>': // NumPy writes this for the only type of ml_dtypes of this kind
		return element{dtype: dlpack.Float8E5M2}, nil
	case strings.IndexByte("biufc", kind) >= 0:
		e.dtype, err = dlpack.ParseDataType(text[1:])
	}
	if e.dtype == 0 || err != nil {
		return refuse("DLPack has no such type")
	}
	if order == '|' && size > 1 {
		return refuse("it needs a byte order, such as the '<' of '<f4'")
	}
	e.bigEndian = order == '>' && size > 1
	return e, nil
}

// typeOf returns the type string that NumPy writes for a data type.
//
// Errors: [elements.ErrDType].
func typeOf(dt dlpack.DataType) (string, error) {
	kind := map[dlpack.TypeCode]string{
		dlpack.CodeBool: "b", dlpack.CodeInt: "i", dlpack.CodeUInt: "u", dlpack.CodeFloat: "f", dlpack.CodeComplex: "c",
	}[dt.Code()]
	size := dt.ItemSize()
	switch {
	case dt.Validate() != nil || dt.Lanes() != 1 || dt.Code() == dlpack.CodeOpaqueHandle || dt == dlpack.Complex32:
		return "", fmt.Errorf("npy: NumPy has no type for %v: %w", dt, elements.ErrDType)
	case kind == "" || dt.IsSubByte():
		return fmt.Sprintf("<V%d", size), nil // the bytes of a type of ml_dtypes
	case size == 1:
		return fmt.Sprintf("|%s1", kind), nil
	}
	return fmt.Sprintf("<%s%d", kind, size), nil
}
