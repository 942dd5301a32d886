package tens_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

const label3 = `{"TENS":{"metadata":{},"tensors":[{"dtype":"f","part":0,"shape":[6000,800],"word":4},` +
	`{"dtype":"f","part":1,"shape":[6000,800],"word":4},{"dtype":"f","part":2,"shape":[6000,960],"word":4}]}}`

func message3(t testing.TB) *tens.Message {
	form := must.Do(tens.MakeForm("TENS"))(t)
	wires := make([]byte, 6000*960*4)
	m := &tens.Message{Form: form, Origin: 1, Granule: 2, Seqno: 3, Label: []byte(label3),
		Parts: [][]byte{wires[:6000*800*4], wires[:6000*800*4], wires}}
	return m
}

// BenchmarkParse3 decodes the frames and the label of a message with three tensors.
func BenchmarkParse3(b *testing.B) {
	frames := message3(b).Encode()
	b.ReportAllocs()
	for b.Loop() {
		m, err := tens.Decode(frames)
		if err != nil {
			b.Fatal(err)
		}
		l, err := m.DecodeLabel()
		if err != nil || len(l.Tensors) != 3 {
			b.Fatal(err)
		}
	}
}

// BenchmarkParse3Layout is BenchmarkParse3 with order, ascend, metadata and a further attribute.
func BenchmarkParse3Layout(b *testing.B) {
	m := message3(b)
	l, err := m.DecodeLabel()
	require.NoError(b, err)
	l.Metadata = []byte(`{"event":7,"run":3,"who":"José"}`)
	for i := range l.Tensors {
		t := &l.Tensors[i]
		t.Order, t.Ascend = []int{0, 1}, []bool{true, false}
		t.Metadata = []byte(`{"gain":0.5,"good":false,"plane":2,"tag":"raw"}`)
		t.Extra = tens.Attributes{{Name: "dlpack", Value: []byte("[2,32,1]")}}
	}
	require.NoError(b, m.EncodeLabel(l))
	frames := m.Encode()
	b.SetBytes(int64(len(m.Label)))
	b.ReportAllocs()
	for b.Loop() {
		m, _ := tens.Decode(frames)
		if _, err := m.DecodeLabel(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode3 encodes the label and the frames of a message with three tensors.
func BenchmarkEncode3(b *testing.B) {
	m := message3(b)
	l, err := m.DecodeLabel()
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.EncodeLabel(l); err != nil {
			b.Fatal(err)
		}
		if len(m.Encode()) != 5 {
			b.Fatal("no frames")
		}
	}
}

func BenchmarkStrides(b *testing.B) {
	t := tens.Tensor{Shape: []int64{3, 2, 4}, Word: 4, DType: 'f', Order: []int{1, 2, 0}, Ascend: []bool{true, false, true}}
	var room [3]int64
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := t.AppendStrides(room[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
