//go:build cgo

package tensorflow_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

// one returns a tensor of n floats and its message.
func one(b *testing.B, n int) (*dlpack.Tensor, []byte) {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	t, err := dlpack.FromSlice(values)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { t.Close() })
	data, err := tensorflow.AppendTensor(nil, t)
	if err != nil {
		b.Fatal(err)
	}
	return t, data
}

// small returns many messages of 4 floats. They follow each other without alignment, as in a file.
func small(b *testing.B, options ...tensorflow.EncodeOption) [][]byte {
	const count = 100_000
	t, err := dlpack.FromSlice([]float32{1, 2, 3, 4})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	messages := make([][]byte, count)
	all := make([]byte, 0, 40*count)
	for i := range messages {
		from := len(all)
		if all, err = tensorflow.AppendTensor(all, t, options...); err != nil {
			b.Fatal(err)
		}
		messages[i] = all[from:len(all):len(all)]
	}
	return messages
}

func decode(b *testing.B, data []byte) {
	v, err := tensorflow.Decode(data)
	if err != nil {
		b.Fatal(err)
	}
	v.Close()
}

func BenchmarkDecode1KiB(b *testing.B)  { benchmarkDecode(b, 1<<8) }
func BenchmarkDecode64MiB(b *testing.B) { benchmarkDecode(b, 16<<20) }

func benchmarkDecode(b *testing.B, n int) {
	_, data := one(b, n)
	b.ReportAllocs()
	for b.Loop() {
		decode(b, data)
	}
}

// For comparison: find the bytes field with protowire, and copy it.
func BenchmarkDecode64MiBByHand(b *testing.B) {
	_, data := one(b, 16<<20)
	b.ReportAllocs()
	for b.Loop() {
		var content []byte
		for rest := data; len(rest) > 0; {
			num, typ, n := protowire.ConsumeTag(rest)
			rest = rest[n:]
			if num == 4 {
				field, n := protowire.ConsumeBytes(rest)
				content = append([]byte(nil), field...)
				rest = rest[n:]
			} else {
				rest = rest[protowire.ConsumeFieldValue(num, typ, rest):]
			}
		}
		if len(content) != 64<<20 {
			b.Fatal("content")
		}
	}
}

func BenchmarkDecode64MiBDynamicpb(b *testing.B) {
	_, data := one(b, 16<<20)
	md := descriptor(b, "Tensor")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := peerRead(md, data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeSmall(b *testing.B)       { benchmarkSmall(b, small(b)) }
func BenchmarkDecodeSmallFields(b *testing.B) { benchmarkSmall(b, small(b, tensorflow.Fields())) }

func benchmarkSmall(b *testing.B, messages [][]byte) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		decode(b, messages[i%len(messages)])
		i++
	}
}

func BenchmarkDecodeSmallDynamicpb(b *testing.B) {
	messages := small(b)
	md := descriptor(b, "Tensor")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := peerRead(md, messages[i%len(messages)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkParseSmall(b *testing.B) {
	messages := small(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := tensorflow.DecodeView(messages[i%len(messages)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// Encoding is one pass over the elements. The metric of-memcpy is the speed of encoding relative to the speed of
// copying the same bytes. The benchmark measures both in turns, and compares the shortest times.
func BenchmarkEncode64MiB(b *testing.B) {
	t, data := one(b, 16<<20)
	from, to := bytes.Repeat([]byte{1}, 64<<20), make([]byte, 64<<20)
	encode := func() (err error) {
		data, err = tensorflow.AppendTensor(data[:0], t)
		return err
	}
	inTurns(b, encode, func() error { copy(to, from); return nil })
}

// BenchmarkEncode64MiBNew encodes to new memory each time.
func BenchmarkEncode64MiBNew(b *testing.B) {
	t, _ := one(b, 16<<20)
	from := bytes.Repeat([]byte{1}, 64<<20)
	var data []byte
	encode := func() (err error) {
		data, err = tensorflow.AppendTensor(nil, t)
		return err
	}
	inTurns(b, encode, func() error { data = append([]byte(nil), from...); return nil })
	runtime.KeepAlive(data)
}

func inTurns(b *testing.B, encode, memcpy func() error) {
	least := func(so time.Duration, what func() error) time.Duration {
		start := time.Now()
		if err := what(); err != nil {
			b.Fatal(err)
		}
		return min(so, time.Since(start))
	}
	encoded, copied := time.Hour, time.Hour
	for b.Loop() {
		encoded, copied = least(encoded, encode), least(copied, memcpy)
	}
	b.ReportMetric(float64(copied)/float64(encoded), "of-memcpy")
}
