//go:build linux || darwin

package capi

/*
#include "message.h"

#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"runtime/cgo"
	"slices"
	"strconv"
	"syscall"
	"unicode/utf8"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// ofFile gives an error of package files its code, unless codeOf knows the error.
func ofFile(err error) error {
	var number syscall.Errno
	switch {
	case err == nil, errors.Is(err, dlpack.ErrMemory):
		return err
	case errors.Is(err, files.ErrChanged), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &number):
		return &codedError{err, C.DLB_ERROR_SYSTEM}
	case errors.Is(err, dlpack.ErrDType):
		return &codedError{err, C.DLB_ERROR_DTYPE}
	}
	if _, ok := errors.AsType[*elements.Error](err); ok {
		return &codedError{err, C.DLB_ERROR_FORMAT}
	}
	return err
}

// C: dlb_file_open. C closes the file by its handle.
//
//export capiFileOpen
func capiFileOpen(op *C.dlbcapi_name, out **C.dlb_file, path *C.dlbcapi_name, flags C.uint64_t, as C.DLDataType, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_ARGUMENT, func() error {
		f, err := openFile(copyText((*C.char)(unsafe.Pointer(path))), flags, as)
		if err != nil {
			return ofFile(err)
		}
		defer func() {
			if *out == nil {
				f.Close()
			}
		}()
		return describeFile(out, f)
	})
}

// copyText copies a text of C; NULL is an empty text. It replaces C.GoString, which reads some bytes behind the end of
// a text; Valgrind reports that.
func copyText(s *C.char) string {
	if s == nil {
		return ""
	}
	return string(view(unsafe.Pointer(s), C.strlen(s)))
}

func openFile(path string, flags C.uint64_t, as C.DLDataType) (*files.File, error) {
	if flags&C.DLB_FILE_SET != 0 {
		if flags != C.DLB_FILE_SET || as != (C.DLDataType{}) {
			return nil, errors.New("dlbridge: a safetensors index is always read-only and has its own data types; pass no other flags and no data type")
		}
		return files.OpenSet(path)
	}
	var options []files.OpenOption
	if flags&C.DLB_FILE_WRITABLE != 0 {
		options = append(options, files.Writable())
	}
	if as != (C.DLDataType{}) {
		options = append(options, files.As(dlpack.MakeDataType(dlpack.TypeCode(as.code), uint8(as.bits), uint16(as.lanes))))
	}
	return files.Open(path, options...)
}

// describeFile sets *out to descriptions, in C memory, of the tensors of a file, and a handle of the file.
func describeFile(out **C.dlb_file, f *files.File) error {
	entries := f.Entries()
	problems := map[int]string{}
	dims, size, path := 0, len(f.Format()), ""
	for i := range entries {
		e := &entries[i]
		dims += len(e.Shape)
		size += len(e.Name) + len(e.Type) + len(e.Copied)
		if e.Path != path {
			size, path = size+len(e.Path), e.Path
		}
		if e.Err != nil {
			problems[i] = errtext.InC(e.Err.Error())
			size += len(problems[i])
		}
	}
	c := C.dlbcapi_file_new(C.size_t(len(entries)), C.size_t(dims), C.size_t(size))
	if c == nil {
		return errMemory
	}
	defer func() {
		if *out == nil {
			C.dlbcapi_file_end(c)
		}
	}()
	shapes := unsafe.Slice((*int64)(unsafe.Pointer(c.dims)), dims)
	room := view(unsafe.Pointer(c.text), C.size_t(size))
	keep := func(s string) C.dlb_bytes {
		n := copy(room, s)
		kept := text(room[:n])
		room = room[n:]
		return kept
	}
	c.format = keep(string(f.Format()))
	described := unsafe.Slice(c.entries, len(entries))
	for i := range entries {
		e, d := &entries[i], &described[i]
		if i > 0 && e.Path == entries[i-1].Path {
			d.path = described[i-1].path
		} else {
			d.path = keep(e.Path)
		}
		d.name, d._type, d.copied = keep(e.Name), keep(e.Type), keep(e.Copied)
		d.dtype = C.DLDataType{code: C.uint8_t(e.DType.Code()), bits: C.uint8_t(e.DType.Bits()), lanes: C.uint16_t(e.DType.Lanes())}
		d.offset, d.size = C.uint64_t(e.Offset), C.uint64_t(e.Size)
		d.ndim = C.int32_t(len(e.Shape))
		if n := copy(shapes, e.Shape); n > 0 {
			d.shape = (*C.int64_t)(unsafe.Pointer(&shapes[0]))
			shapes = shapes[n:]
		}
		if e.Aligned {
			d.aligned = 1
		}
		if e.Err != nil {
			d.status, d.problem = codeOf(ofFile(e.Err), C.DLB_ERROR_FORMAT), keep(problems[i])
		}
	}
	if injectFault != nil {
		injectFault(2)
	}
	c.handle = C.uintptr_t(cgo.NewHandle(f))
	*out = c
	return nil
}

// fileOf returns the file of a handle.
func fileOf(handle C.uintptr_t) *files.File { return cgo.Handle(handle).Value().(*files.File) }

// C: dlb_file_close. Nothing in it can fail.
//
//export capiFileClose
func capiFileClose(handle C.uintptr_t) {
	fileOf(handle).Close()
	cgo.Handle(handle).Delete()
}

// C: dlb_file_tensor_at and, with copied, dlb_file_copy
//
//export capiFileTensor
func capiFileTensor(op *C.dlbcapi_name, handle C.uintptr_t, index C.size_t, copied C.int32_t, out **C.DLManagedTensorVersioned, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_FORMAT, func() error {
		f := fileOf(handle)
		open := f.Tensor
		if copied != 0 {
			open = f.Copy
		}
		t, err := open(f.Entries()[index].Name)
		if err != nil {
			return ofFile(err)
		}
		defer t.Close()
		managed, err := t.Export()
		if err != nil {
			return err
		}
		*out = (*C.DLManagedTensorVersioned)(managed)
		(*out).flags |= C.uint64_t(t.Flags() & dlpack.IsCopied) // the caller is the only owner of a copy, which Export does not know
		return nil
	})
}

// C: dlb_file_verify and, with sync, dlb_file_sync
//
//export capiFileCheck
func capiFileCheck(op *C.dlbcapi_name, handle C.uintptr_t, sync C.int32_t, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_SYSTEM, func() error {
		if sync != 0 {
			return ofFile(fileOf(handle).Sync())
		}
		return ofFile(fileOf(handle).Verify())
	})
}

// C: dlb_file_metadata. *out is the address and size of the text that follows in the same allocation.
//
//export capiFileMetadata
func capiFileMetadata(op *C.dlbcapi_name, handle C.uintptr_t, out **C.dlb_bytes, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_FORMAT, func() error {
		fields := fileOf(handle).Metadata()
		count := jsonText{}
		count.fields(fields)
		made := (*C.dlb_bytes)(C.calloc(1, C.size_t(unsafe.Sizeof(C.dlb_bytes{}))+C.size_t(count.size))) // C.malloc ends the process if there is no memory
		if made == nil {
			return errMemory
		}
		made.data, made.size = (*C.char)(unsafe.Add(unsafe.Pointer(made), unsafe.Sizeof(*made))), C.size_t(count.size)
		write := jsonText{room: view(unsafe.Pointer(made.data), made.size)}
		write.fields(fields)
		*out = made
		return nil
	})
}

// jsonText writes JSON into room, or only counts the bytes if there is no room: the text may be large, and a failed
// allocation of Go memory would end the process.
type jsonText struct {
	room []byte
	size int
}

func (j *jsonText) add(s string) {
	if j.room != nil {
		copy(j.room[j.size:], s)
	}
	j.size += len(s)
}

func (j *jsonText) fields(fields []files.Field) {
	j.add("{")
	for i, f := range fields {
		if i > 0 {
			j.add(",")
		}
		j.text(f.Key)
		j.add(":")
		j.value(reflect.ValueOf(f.Value))
	}
	j.add("}")
}

// value writes a value of [files.Field].
func (j *jsonText) value(v reflect.Value) {
	var room [32]byte
	switch v.Kind() {
	case reflect.Invalid:
		j.add("null")
	case reflect.Interface:
		j.value(v.Elem())
	case reflect.Bool:
		j.add(strconv.FormatBool(v.Bool()))
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() {
			j.add(v.String())
		} else {
			j.text(v.String())
		}
	case reflect.Float32, reflect.Float64:
		j.float(v.Float(), v.Type().Bits())
	case reflect.Slice:
		j.add("[")
		for i := range v.Len() {
			if i > 0 {
				j.add(",")
			}
			j.value(v.Index(i))
		}
		j.add("]")
	case reflect.Map:
		fields := make([]files.Field, 0, v.Len())
		for _, key := range slices.Sorted(maps.Keys(v.Interface().(map[string]any))) {
			fields = append(fields, files.Field{Key: key, Value: v.MapIndex(reflect.ValueOf(key)).Interface()})
		}
		j.fields(fields)
	default:
		if v.CanUint() {
			j.add(string(strconv.AppendUint(room[:0], v.Uint(), 10)))
		} else {
			j.add(string(strconv.AppendInt(room[:0], v.Int(), 10)))
		}
	}
}

// float writes the shortest number that reads back as x with the given number of bits. It has a point or an exponent,
// so that readers do not mistake it for an integer.
func (j *jsonText) float(x float64, bits int) {
	switch {
	case math.IsNaN(x):
		j.add("NaN")
	case math.IsInf(x, 0):
		j.add(map[bool]string{true: "Infinity", false: "-Infinity"}[x > 0])
	default:
		var room [32]byte
		number := strconv.AppendFloat(room[:0], x, 'g', -1, bits)
		j.add(string(number))
		if !bytes.ContainsAny(number, ".e") {
			j.add(".0")
		}
	}
}

// text writes a string. Each byte that is not UTF-8 becomes one of the characters U+DC80 to U+DCFF, as in Python's
// surrogateescape.
func (j *jsonText) text(s string) {
	j.add(`"`)
	plain := 0 // where what is written as it is begins
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		switch invalid := c == utf8.RuneError && n == 1; {
		case invalid, c < ' ', c == '"', c == '\\':
			j.add(s[plain:i])
			code := int(s[i])
			if invalid {
				code += 0xdc00
			}
			var room [8]byte // fmt would allocate memory for each byte
			j.add(`\u`)
			j.add(string(strconv.AppendInt(room[:0], int64(0x10000+code), 16)[1:])) // four digits
			plain = i + n
		}
		i += n
	}
	j.add(s[plain:])
	j.add(`"`)
}

// C: dlb_file_write. views has the tensors without deleters.
//
//export capiFileWrite
func capiFileWrite(op, path *C.dlbcapi_name, tensors *C.dlb_file_tensor, views *C.DLManagedTensorVersioned, count C.size_t, fields *C.dlb_file_fields, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_ARGUMENT, func() error {
		given, in := unsafe.Slice(tensors, int(count)), unsafe.Slice(views, int(count))
		need := perByte * int64(fields.metadata.size)
		for i := range in {
			need += perTensor + perDimension*int64(in[i].dl_tensor.ndim)
			if given[i].name != nil {
				need += perByte * int64(C.strlen(given[i].name))
			}
		}
		if err := dlpack.RequireMemory(need); err != nil {
			return err
		}
		named := make([]files.Named, 0, len(in))
		defer func() {
			for _, t := range named {
				t.Tensor.Close()
			}
		}()
		for i := range in {
			t, err := dlpack.Import(unsafe.Pointer(&in[i]), dlpack.WithoutGuard)
			if err != nil {
				return payload.WithFormat(fmt.Sprintf("dlbridge: tensors[%d]", i), err)
			}
			named = append(named, files.Named{Name: copyText(given[i].name), Tensor: t})
		}
		options, err := writeOptions(fields)
		if err != nil {
			return err
		}
		return ofFile(files.Write(copyText((*C.char)(unsafe.Pointer(path))), named, options...))
	})
}

func writeOptions(fields *C.dlb_file_fields) (options []files.WriteOption, err error) {
	if fields.format != nil {
		options = append(options, files.InFormat(files.Format(copyText(fields.format))))
	}
	if fields.align != 0 {
		options = append(options, files.Align(int(min(fields.align, math.MaxInt))))
	}
	if fields.metadata.size > 0 {
		texts := map[string]string{}
		s := strictjson.Scanner{Data: viewText(fields.metadata)}
		err := s.Document(func() {
			s.Once(0)
			name := string(s.Name)
			if s.Peek() != '"' {
				s.Fail(&strictjson.Error{Kind: strictjson.ErrSyntax, Offset: s.Pos, Detail: "a value that is not a string"})
				return
			}
			texts[name] = string(s.Text())
		})
		if err != nil {
			return nil, fmt.Errorf("dlbridge: fields.metadata: %w", err)
		}
		options = append(options, files.Metadata(texts))
	}
	if fields.progress != nil {
		options = append(options, files.Progress(func(written, total int64) error {
			if stop := C.dlbcapi_file_progress(fields, C.uint64_t(written), C.uint64_t(total)); stop != 0 {
				return &codedError{fmt.Errorf("progress has returned %d", int(stop)), C.DLB_ERROR_FUNCTION}
			}
			return nil
		}))
	}
	return options, nil
}
