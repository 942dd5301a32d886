package amplification

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// This file has inputs that need much memory for their size, by name. They test the decoders of a format in all languages.

// list returns n JSON items with commas between them. A formatting verb in item stands for the number of the item, from 0 on.
func list(n int, item string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(item, "%") {
			fmt.Fprintf(&b, item, i)
		} else {
			b.WriteString(item)
		}
	}
	return b.String()
}

// label returns a label with tensors, after further attributes.
func label(tensors, further string) []byte {
	return []byte(`{` + further + `"TENS":{"tensors":[` + tensors + `]}}`)
}

// objects returns JSON objects inside each other. inner is the text of each one before its last value, the next object or 0.
func objects(depth int, inner string) string {
	return strings.Repeat("{"+inner, depth) + "0" + strings.Repeat("}", depth)
}

// Scalar describes a tensor of one byte, in part 0.
const Scalar = `{"part":0,"shape":[],"word":1,"dtype":"b"}`

const scalar = `"part":0,"shape":[],"word":1,"dtype":"b"`

// Labels returns labels in JSON, by the names of test cases. Each is for a TENS message with one part, of one byte.
func Labels() map[string][]byte {
	ones := func(n int) string { return list(n, "1") }
	further := `{` + list(18, `"%x":0`) + `,` + scalar + `}`
	behind := func(tensors string) []byte {
		return []byte(`{"TENS":{"tensors":[` + tensors + `],"x":"` + strings.Repeat("x", 1<<20) + `"}}`)
	}
	return map[string][]byte{
		"many tensors on one part":       label(list(20_000, `{`+scalar+`}`), ""),
		"tensors that grow shorter":      label(list(400, `{`+scalar+`,"x":"`+strings.Repeat("x", 200)+`"}`)+","+list(20_000, `{`+scalar+`}`), ""),
		"many tensors with an attribute": label(list(20_000, `{`+scalar+`,"":0}`), ""),
		"many tensors with lists":        label(list(20_000, `{"part":0,"shape":[1],"word":1,"dtype":"b","order":[0],"ascend":[true]}`), ""),
		"many dimensions":                label(`{"part":0,"shape":[`+list(200_000, "1")+`],"word":1,"dtype":"b"}`, ""),
		"many dimensions in an order":    label(`{"part":0,"shape":[`+list(50_000, "1")+`],"order":[`+list(50_000, "%d")+`],"word":1,"dtype":"b"}`, ""),
		"many tensors behind attributes of all kinds": []byte(`{` + list(17, `"%x":0`) + `,"TENS":{` + list(17, `"%x":0`) + `,"tensors":[{` + list(17, `"%x":0`) + `,` + scalar + `},` +
			list(24, `{`+scalar+`}`) + `,` + list(2000, `{"part":0,"word":1,"dtype":"b","shape":[`+ones(255)+`]}`) + `]}}`),
		"many dimensions behind attributes": []byte(`{` + list(88, `"0_%x":0`) + `,"TENS":{` + list(18, `"0_%xx":0`) + `,"tensors":[{` + scalar + `,` + list(850, `"%x":0`) + `},` +
			list(30, `{"part":0,"shape":[],"word":1,"dtype":"V","dlpack":[0,8,1]}`) + `,{"part":0,"shape":[` + ones(19_600) + `],"word":1,"dtype":"b"}]}}`),
		"an order without dimensions":              label(`{"order":[`+list(200_000, "0")+`],`+scalar+`}`, ""),
		"directions without dimensions":            label(`{"ascend":[`+list(100_000, "true")+`],`+scalar+`}`, ""),
		"many attributes of the label":             label("", list(30_000, `"%x":0`)+","),
		"many attributes of a tensor":              label(`{`+scalar+`,`+list(30_000, `"%x":0`)+`}`, ""),
		"many attributes of each tensor":           label(list(2000, further), ""),
		"a long text behind attributes of tensors": behind(list(400, further)),
		"a long text behind a few of all": []byte(`{` + list(16, `"%x":0`) + `,"TENS":{` + list(16, `"%x":0`) + `,"tensors":[{` + list(16, `"%x":0`) +
			`,"shape":[` + ones(16) + `],"order":[` + list(16, "%d") + `],"ascend":[` + list(16, "true") + `],"part":0,"word":1,"dtype":"b"},` +
			list(32, `{`+scalar+`}`) + `],"x":"` + strings.Repeat("x", 1<<20) + `"}}`),
		"many attributes in metadata":      label(`{`+scalar+`,"metadata":{`+list(30_000, `"%x":0`)+`}}`, ""),
		"many objects with an attribute":   label("", `"a":[`+list(50_000, `{"":{}}`)+`],`),
		"many attributes in each other":    label("", `"a":`+objects(250, list(200, `"%x":0`)+`,"a":`)+`,`),
		"attributes that grow shorter":     label("", `"x":"`+strings.Repeat("x", 100_000)+`",`+list(30_000, `"%x":0`)+","),
		"one name twice behind many":       label("", list(30_000, `"%x":0`)+`,"0":0,`),
		"names of escapes":                 label("", list(10_000, `"\u0041\u0042\u0043%d":0`)+","),
		"a long name of escapes":           label("", `"`+strings.Repeat(`\u0041`, 50_000)+`":0,`),
		"a long value of escapes":          label("", `"a":"`+strings.Repeat(`\u0041`, 50_000)+`",`),
		"a long data type of escapes":      label(`{"part":0,"shape":[],"word":1,"dtype":"`+strings.Repeat(`\u0041`, 50_000)+`"}`, ""),
		"arrays to the deepest level":      label("", `"a":`+strings.Repeat("[", 250)+strings.Repeat("]", 250)+`,`),
		"arrays beyond the deepest level":  label("", `"a":`+strings.Repeat("[", 50_000)),
		"many arrays":                      label("", `"a":[`+list(100_000, `[]`)+`],`),
		"a long text that is no label":     []byte(`"` + strings.Repeat("x", 100_000) + `"`),
		"many tensors with a dimension":    label(list(20_000, `{"part":0,"shape":[1],"word":1,"dtype":"b"}`), ""),
		"many tensors of another type":     label(list(10_000, `{"part":0,"shape":[],"word":1,"dtype":"V","dlpack":[0,8,1]}`), ""),
		"many tensors of high rank":        label(list(500, `{"part":0,"shape":[`+ones(256)+`],"word":1,"dtype":"b"}`), ""),
		"many tensors of a middle rank":    label(list(2000, `{"part":0,"shape":[`+ones(9)+`],"word":1,"dtype":"b"}`), ""),
		"many tensors with metadata":       label(list(20_000, `{`+scalar+`,"metadata":{}}`), ""),
		"many tensors, the last one wrong": label(list(20_000, Scalar)+`,{"part":0,"shape":[],"word":1,"dtype":"V","dlpack":[]}`, ""),
	}
}

// Frames returns the frames of a message with a label and a part of one byte.
func Frames(label []byte) [][]byte {
	return [][]byte{append([]byte("ZIO0TENS"), label...), make([]byte, 24), {1}}
}

// Pack returns the single-part form of frames.
func Pack(frames [][]byte) (data []byte) {
	for _, frame := range frames {
		data = append(data, 255)
		data = binary.BigEndian.AppendUint32(data, uint32(len(frame)))
		data = append(data, frame...)
	}
	return data
}

// Packed returns messages in single-part form that consist of many small frames.
func Packed() map[string][]byte {
	head := func(more []byte) []byte { return append(Pack(Frames(label(`{`+scalar+`}`, ""))), more...) }
	return map[string][]byte{
		"empty frames":                 head(make([]byte, 300_000)),
		"frames of a byte":             head(bytes.Repeat([]byte{1, 1}, 150_000)),
		"empty frames with long sizes": head(bytes.Repeat([]byte{255, 0, 0, 0, 0}, 60_000)),
		"a frame that is cut short":    head(append(make([]byte, 300_000), 9)),
	}
}

// The data types of TensorFlow that TensorProtos uses.
const (
	float, double, int32Type, stringType, int64Type, qint8, qint32, resource, variant = 1, 2, 3, 7, 9, 11, 13, 20, 21
)

// TensorProto returns a TensorProto message with one dimension of size count, and with further fields.
func TensorProto(dtype byte, count uint64, fields ...[]byte) []byte {
	shape := binary.AppendUvarint([]byte{1 << 3}, count)
	dim := append([]byte{2<<3 | 2, byte(len(shape))}, shape...)
	return append(append([]byte{1 << 3, dtype, 2<<3 | 2, byte(len(dim))}, dim...), bytes.Join(fields, nil)...)
}

// Field returns a length-delimited field of a protocol buffer message.
func Field(number byte, value []byte) []byte {
	tag := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(tag, uint64(len(value))), value...)
}

func times(n int, piece string) []byte { return []byte(strings.Repeat(piece, n)) }

// TensorProtos returns TensorProto messages by name, one for each way of storing elements that could make a decoder allocate far
// more than the message has bytes. Some of them are refused.
func TensorProtos() map[string][]byte {
	const n = 100_000
	return map[string][]byte{
		"14 bytes, quantised":                TensorProto(qint8, 64<<20, Field(7, []byte{1})),
		"14 bytes, quantised, 32 bits":       TensorProto(qint32, 16<<20),
		"14 bytes, int64":                    TensorProto(int64Type, 8<<20, Field(10, []byte{1})),
		"one string for 2.7 million":         TensorProto(stringType, 2_700_000, Field(8, times(1<<16, "x"))),
		"more strings than are allowed":      TensorProto(stringType, 2_800_000, Field(8, nil)),
		"no variant for 2.7 million":         TensorProto(variant, 2_700_000),
		"a resource for 2.7 million":         TensorProto(resource, 2_700_000, Field(14, []byte("r"))),
		"empty strings":                      TensorProto(stringType, n, times(n, "\x42\x00")),
		"empty strings in content":           TensorProto(stringType, n, Field(4, make([]byte, n))),
		"strings of a byte in content":       TensorProto(stringType, n, Field(4, append(times(n, "\x01"), times(n, "x")...))),
		"quantised in content":               TensorProto(qint8, n, Field(4, times(n, "x"))),
		"quantised varints":                  TensorProto(qint32, n, Field(7, times(n, "\x01"))),
		"quantised varints, one by one":      TensorProto(qint32, n, times(n, "\x38\x01")),
		"int64 varints":                      TensorProto(int64Type, n, Field(10, times(n, "\x01"))),
		"int64 varints, one by one":          TensorProto(int64Type, n, times(n, "\x50\x01")),
		"int64 varints in two fields":        TensorProto(int64Type, 2*n, Field(10, times(n, "\x01")), Field(10, times(n, "\x01"))),
		"int32 varints in two fields":        TensorProto(int32Type, 2*n, Field(7, times(n, "\x01")), Field(7, times(n, "\x01"))),
		"floats one by one":                  TensorProto(float, n, times(n, "\x2d1234")),
		"floats one by one, one left out":    TensorProto(float, n+1, times(n, "\x2d1234")),
		"floats in fields of two":            TensorProto(float, 2*n, times(n, "\x2a\x0812345678")),
		"doubles one by one":                 TensorProto(double, n, times(n, "\x3112345678")),
		"content in the wrong place":         append([]byte{0}, TensorProto(double, n, Field(4, times(n, "12345678")))...),
		"content that is not aligned":        TensorProto(double, n, Field(4, times(n, "12345678"))),
		"a field that is empty many times":   TensorProto(float, 1, times(n, "\x2a\x00"), Field(5, []byte("1234"))),
		"unknown fields":                     TensorProto(float, 1, times(n, "\xa0\x06\x01"), Field(5, []byte("1234"))),
		"groups":                             TensorProto(float, 1, times(n, "\xa3\x06\xa4\x06"), Field(5, []byte("1234"))),
		"content many times":                 TensorProto(float, 1, times(n, "\x22\x041234")),
		"shapes many times":                  TensorProto(float, 1, times(n, "\x12\x00"), Field(5, []byte("1234"))),
		"dimensions":                         TensorProto(float, 1, times(252, "\x12\x04\x12\x02\x08\x01"), Field(5, []byte("1234"))),
		"more dimensions than are allowed":   TensorProto(float, 1, Field(2, times(n, "\x12\x02\x08\x01"))),
		"values of other types":              TensorProto(float, 1, times(n, "\x42\x00"), Field(5, []byte("1234"))),
		"too many values":                    TensorProto(qint8, 1, Field(7, times(n, "\x01"))),
		"too many strings":                   TensorProto(stringType, 1, times(n, "\x42\x00")),
		"variants":                           TensorProto(variant, 1, Field(15, Field(3, Field(3, times(n, "\x1a\x00"))))),
		"tensors of a variant":               times(n, "\x1a\x00"),
		"a name of a variant, many times":    times(1000, "\x0a\x64"+strings.Repeat("x", 100)),
		"a name of an allocator, many times": Field(4, times(1000, "\x1a\x64"+strings.Repeat("x", 100))),
		"extents of a slice":                 times(n, "\x0a\x00"),
		"dimensions of a shape":              times(n, "\x12\x00"),
	}
}

// length appends n as a varint of Decthings, in the only form that decoders accept.
func length(dst []byte, n uint32) []byte {
	switch {
	case n < 253:
		return append(dst, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 253), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 254), n)
}

// Long returns a Decthings tensor of one dimension whose n elements all have the given bytes.
func Long(kind byte, n uint32, element string) []byte {
	return append(length([]byte{kind, 1}, n), strings.Repeat(element, int(n))...)
}

// Sectioned is [Long] with the length of the section before the elements.
func Sectioned(kind byte, n uint32, element string) []byte {
	head := length([]byte{kind, 1}, n)
	elements := strings.Repeat(element, int(n))
	return append(length(head, uint32(len(elements))), elements...)
}

// The data types of Decthings that Tensors uses.
const (
	f64, u8, text, binaries, boolean, image, audio = 2, 7, 11, 12, 13, 14, 15
)

// Tensors returns Decthings tensors, each in one of the dialects.
func Tensors() map[string][]byte {
	const n = 100_000
	return map[string][]byte{
		"empty strings":                       Long(text, n, "\x00"),
		"empty binaries":                      Long(binaries, n, "\x00"),
		"empty binaries, in a section":        Sectioned(binaries, n, "\x00"),
		"strings of a byte":                   Long(text, n, "\x01x"),
		"binaries of a byte":                  Long(binaries, n, "\x01x"),
		"images without content":              Long(image, n, "\x03png"),
		"images of two formats":               Long(image, n, "\x03png\x03jpg"),
		"images without format":               Sectioned(image, n, "\x01\x00"),
		"images with and without format":      Sectioned(image, n, "\x01\x00\x02\x01x"),
		"images in a section":                 Sectioned(audio, n, "\x03mp3"),
		"more strings than there are":         append(Long(text, n, "\x00"), 0)[:n],
		"a string that is no text at the end": append(Long(text, n, "\x00")[:n+6], 1, 0xff),
		"numbers that are not aligned":        Long(f64, n, "12345678"),
		"booleans":                            Long(boolean, n, "\x01"),
		"numbers that are said to be there":   append([]byte{f64, 1, 255}, "\x00\x00\x00\x0f1234"...),
		"as many dimensions as there can be":  append([]byte{u8, 255}, bytes.Repeat([]byte{1}, 256)...),
		"scalars, one after another":          bytes.Repeat([]byte{u8, 0, 1}, 1000),
		"many dimensions, one after another":  bytes.Repeat(append([]byte{u8, 255}, bytes.Repeat([]byte{1}, 256)...), 100),
		"dimensions of nine bytes":            append([]byte{text, 255}, bytes.Repeat([]byte{255, 0x7f, 0, 0, 0, 0, 0, 0, 1}, 255)...),
	}
}
