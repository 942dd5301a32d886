package tens_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/internal/amplification"
	"github.com/dlbridge/dlbridge/tens"
)

// list repeats an item of JSON, with its number in it if it asks for that.
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

// labelOf is a label of tensors, and of further attributes of the label.
func labelOf(tensors, further string) []byte {
	return []byte(`{` + further + `"TENS":{"tensors":[` + tensors + `]}}`)
}

const scalar = `"shape":[],"word":1,"dtype":"b"`

// hostileLabels take more memory than others of their size.
func hostileLabels() map[string][]byte {
	return map[string][]byte{
		"many tensors on one part":        labelOf(list(20_000, `{"part":0,`+scalar+`}`), ""),
		"tensors that grow shorter":       labelOf(list(400, `{"part":0,`+scalar+`,"x":"`+strings.Repeat("x", 200)+`"}`)+","+list(20_000, `{"part":0,`+scalar+`}`), ""),
		"many tensors with an attribute":  labelOf(list(20_000, `{"part":0,`+scalar+`,"":0}`), ""),
		"many tensors with lists":         labelOf(list(20_000, `{"part":0,"shape":[1],"word":1,"dtype":"b","order":[0],"ascend":[true]}`), ""),
		"many dimensions":                 labelOf(`{"part":0,"shape":[`+list(200_000, "1")+`],"word":1,"dtype":"b"}`, ""),
		"many dimensions in an order":     labelOf(`{"part":0,"shape":[`+list(50_000, "1")+`],"order":[`+list(50_000, "%d")+`],"word":1,"dtype":"b"}`, ""),
		"an order without dimensions":     labelOf(`{"part":0,"order":[`+list(200_000, "0")+`],`+scalar+`}`, ""),
		"directions without dimensions":   labelOf(`{"part":0,"ascend":[`+list(100_000, "true")+`],`+scalar+`}`, ""),
		"many attributes of the label":    labelOf("", list(30_000, `"%x":0`)+","),
		"many attributes of a tensor":     labelOf(`{"part":0,`+scalar+`,`+list(30_000, `"%x":0`)+`}`, ""),
		"many attributes in metadata":     labelOf(`{"part":0,`+scalar+`,"metadata":{`+list(30_000, `"%x":0`)+`}}`, ""),
		"many objects with an attribute":  labelOf("", `"a":[`+list(50_000, `{"":{}}`)+`],`),
		"many attributes in each other":   labelOf("", `"a":`+objects(250, list(200, `"%x":0`)+`,"a":`)+`,`),
		"attributes that grow shorter":    labelOf("", `"x":"`+strings.Repeat("x", 100_000)+`",`+list(30_000, `"%x":0`)+","),
		"one name twice behind many":      labelOf("", list(30_000, `"%x":0`)+`,"0":0,`),
		"names of escapes":                labelOf("", list(10_000, `"\u0041\u0042\u0043%d":0`)+","),
		"a long name of escapes":          labelOf("", `"`+strings.Repeat(`\u0041`, 50_000)+`":0,`),
		"a long value of escapes":         labelOf("", `"a":"`+strings.Repeat(`\u0041`, 50_000)+`",`),
		"a long data type of escapes":     labelOf(`{"part":0,"shape":[],"word":1,"dtype":"`+strings.Repeat(`\u0041`, 50_000)+`"}`, ""),
		"arrays to the deepest level":     labelOf("", `"a":`+strings.Repeat("[", 250)+strings.Repeat("]", 250)+`,`),
		"arrays beyond the deepest level": labelOf("", `"a":`+strings.Repeat("[", 50_000)),
		"many arrays":                     labelOf("", `"a":[`+list(100_000, `[]`)+`],`),
		"a long text that is no label":    []byte(`"` + strings.Repeat("x", 100_000) + `"`),
	}
}

func objects(depth int, inner string) string {
	return strings.Repeat("{"+inner, depth) + "0" + strings.Repeat("}", depth)
}

// readLabel goes through all that reads a label, one call after the other.
func readLabel(t testing.TB, text []byte) {
	frames := [][]byte{append([]byte("ZIO0TENS"), text...), make([]byte, tens.HeaderSize), {1}}
	amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
		if m, err := tens.Parse(frames); err == nil {
			m.TENS()
		}
		return nil
	})
	amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
		tens.ParseAttributes(text)
		return nil
	})
	if l, err := tens.ParseLabel(text); err == nil {
		for i := range l.Tensors {
			x := &l.Tensors[i]
			amplification.Require(t, 2*len(x.Shape), amplification.Variable, 0, func() func() {
				x.Strides()
				return nil
			})
			if i == 10 {
				break
			}
		}
	}
}

func readPacked(t testing.TB, data []byte) {
	amplification.Require(t, len(data), amplification.Variable, 0, func() func() {
		if m, err := tens.ParsePacked(data); err == nil {
			m.TENS()
		}
		return nil
	})
}

func TestLabelsTakeMemoryInProportionToTheirText(t *testing.T) {
	for name, text := range hostileLabels() {
		t.Run(name, func(t *testing.T) { readLabel(t, text) })
	}
}

// hostilePacked are messages in single-part form of many small frames.
func hostilePacked(t testing.TB) map[string][]byte {
	head, err := tens.AppendFrames(nil, [][]byte{append([]byte("ZIO0TENS"), labelOf(`{`+scalar+`}`, "")...), make([]byte, tens.HeaderSize), {1}})
	require.NoError(t, err)
	return map[string][]byte{
		"empty frames":                 append(bytes.Clone(head), make([]byte, 300_000)...),
		"frames of a byte":             append(bytes.Clone(head), bytes.Repeat([]byte{1, 1}, 150_000)...),
		"empty frames with long sizes": append(bytes.Clone(head), bytes.Repeat([]byte{255, 0, 0, 0, 0}, 60_000)...),
		"a frame that is cut short":    append(append(bytes.Clone(head), make([]byte, 300_000)...), 9),
	}
}

func TestFramesTakeMemoryInProportionToTheirBytes(t *testing.T) {
	for name, data := range hostilePacked(t) {
		t.Run(name, func(t *testing.T) { readPacked(t, data) })
	}
}

// FuzzAmplification: whatever a label or a packed message says, reading it takes a bounded multiple of its size.
func FuzzAmplification(f *testing.F) {
	for _, v := range readVectors(f, ownFolder) {
		if v.Frames == nil {
			continue
		}
		if _, _, label, err := tens.ConsumePrefix(v.frames(f)[0]); err == nil {
			at := max(bytes.Index(label, []byte(`,{"`)), 0)
			f.Add(label, uint16(at), uint16(60), uint16(300))
		}
		if v.Encoded != nil && v.Encoded.File != "" {
			data := v.read(f, v.Encoded.File)
			f.Add(data, uint16(len(data)), uint16(0), uint16(0))
		}
	}
	for _, text := range hostileLabels() {
		f.Add(text[:min(len(text), 4000)], uint16(0), uint16(0), uint16(0))
	}
	tensor := []byte(`{"TENS":{"tensors":[{"part":0,` + scalar + `},{"part":0,` + scalar + `}]}}`)
	f.Add(tensor, uint16(bytes.LastIndexByte(tensor, ',')), uint16(1), uint16(0))
	f.Add(tensor, uint16(bytes.Index(tensor, []byte(`,{`))), uint16(len(scalar)+12), uint16(2000))
	f.Add([]byte("\x08ZIO0TENS\x18012345678901234567890123\x00"), uint16(34), uint16(1), uint16(60_000))
	f.Fuzz(func(t *testing.T, data []byte, at, size, times uint16) {
		data = amplification.Repeat(data, at, size, times)
		readLabel(t, data)
		readPacked(t, data)
	})
}
