//go:build cgo

package decthings_test

import (
	"fmt"
	"testing"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// floats returns the binary form of a tensor of n float32, with an aligned payload.
func floats(b *testing.B, n int) (*dlpack.Tensor, []byte) {
	t, err := dlpack.FromSlice(make([]float32, n))
	if err != nil {
		b.Fatal(err)
	}
	data, err := decthings.AppendTensor(nil, t)
	if err != nil {
		b.Fatal(err)
	}
	return t, data
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 20} {
		_, data := floats(b, size/4)
		b.Run(fmt.Sprintf("aligned/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := decthings.Decode(data)
				if err != nil || v.Copied {
					b.Fatal(v.Copied, err)
				}
				v.Close()
			}
		})
		unaligned := append(make([]byte, 58), data...)[58:] // after headers of 5 and 7 bytes
		b.Run(fmt.Sprintf("unaligned/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := decthings.Decode(unaligned)
				if err != nil || !v.Copied {
					b.Fatal(v.Copied, err)
				}
				v.Close()
			}
		})
		// For comparison: parse the header by hand and copy the payload to a slice.
		b.Run(fmt.Sprintf("copying/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := decthings.DecodeView(data, decthings.Doc)
				if err != nil {
					b.Fatal(err)
				}
				if kept := append([]byte(nil), v.Data...); len(kept) != size {
					b.Fatal(len(kept))
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 20} {
		t, dst := floats(b, size/4)
		b.Run(fmt.Sprintf("append/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decthings.AppendTensor(dst[:0], t); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("new/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := decthings.AppendTensor(nil, t); err != nil {
					b.Fatal(err)
				}
			}
		})
		from := make([]byte, size)
		b.Run(fmt.Sprintf("memcpy/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				copy(dst, from)
			}
		})
		b.Run(fmt.Sprintf("memcpy-new/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if kept := append([]byte(nil), from...); len(kept) != size {
					b.Fatal(len(kept))
				}
			}
		})
	}
}

const many = 100_000

// Of the 10^5 tensors of 4 floats every fourth payload is aligned.
func BenchmarkMany(b *testing.B) {
	t, one := floats(b, 4)
	stream := make([]byte, 0, many*len(one))
	for range many {
		stream = append(stream, one...)
	}
	perTensor := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/tensor")
	}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for v, err := range decthings.DecodeAll(stream) {
				if err != nil {
					b.Fatal(err)
				}
				n++
				v.Close()
			}
			if n != many {
				b.Fatal(n)
			}
		}
		perTensor(b)
	})
	b.Run("views", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v decthings.View
			for rest := stream; len(rest) > 0; {
				n, err := v.DecodeFirst(rest, decthings.Doc)
				if err != nil {
					b.Fatal(err)
				}
				rest = rest[n:]
			}
		}
		perTensor(b)
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out := stream[:0]
			for range many {
				out, _ = decthings.AppendTensor(out, t)
			}
			if len(out) != cap(stream) {
				b.Fatal(len(out))
			}
		}
		perTensor(b)
	})
}

func BenchmarkElements(b *testing.B) {
	e := &elements.Elements{Type: "string", Shape: []int64{many}}
	for range many {
		e.Values = append(e.Values, []byte("hello"))
	}
	data, err := decthings.AppendElements(nil, e, decthings.Doc)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decthings.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decthings.AppendElements(data[:0], e, decthings.Doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}
