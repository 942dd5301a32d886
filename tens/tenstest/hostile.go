// Package tenstest is for tests. It has named labels and messages whose decoding needs much memory for their size.
package tenstest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// list returns n JSON items with commas between them. A formatting verb in item stands for the number of the item, counted
// from 0.
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

// objects returns nested JSON objects. inner is the text of each object before its last value, which is the next object or
// 0.
func objects(depth int, inner string) string {
	return strings.Repeat("{"+inner, depth) + "0" + strings.Repeat("}", depth)
}

// Scalar describes a tensor of one byte, in part 0.
const Scalar = `{"part":0,"shape":[],"word":1,"dtype":"b"}`

const scalar = `"part":0,"shape":[],"word":1,"dtype":"b"`

// Labels returns JSON labels by the names of test cases. Each label is for a TENS message with one part of one byte.
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

// Pack returns the packed form of frames.
func Pack(frames [][]byte) (data []byte) {
	for _, frame := range frames {
		data = append(data, 255)
		data = binary.BigEndian.AppendUint32(data, uint32(len(frame)))
		data = append(data, frame...)
	}
	return data
}

// Packed returns messages in packed form that consist of many small frames.
func Packed() map[string][]byte {
	head := func(more []byte) []byte { return append(Pack(Frames(label(`{`+scalar+`}`, ""))), more...) }
	return map[string][]byte{
		"empty frames":                 head(make([]byte, 300_000)),
		"frames of a byte":             head(bytes.Repeat([]byte{1, 1}, 150_000)),
		"empty frames with long sizes": head(bytes.Repeat([]byte{255, 0, 0, 0, 0}, 60_000)),
		"a frame that is cut short":    head(append(make([]byte, 300_000), 9)),
	}
}
