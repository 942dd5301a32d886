//go:build cgo

package dlpacktest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// A recorder is a test that records its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestAllClose(t *testing.T) {
	CheckLeaks(t)
	floats := func(values ...float64) *dlpack.Tensor { return must.Own(dlpack.FromSlice(values))(t) }
	integers := func(values ...int64) *dlpack.Tensor { return must.Own(dlpack.FromSlice(values))(t) }
	unsigned := func(values ...uint64) *dlpack.Tensor { return must.Own(dlpack.FromSlice(values))(t) }
	complexes := func(values ...complex128) *dlpack.Tensor { return must.Own(dlpack.FromSlice(values))(t) }
	closed := floats(1)
	closed.Close()
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name               string
		want, got          *dlpack.Tensor
		relative, absolute float64
		failure            string
	}{
		{"equal", floats(1, nan, inf, -inf), floats(1, nan, inf, -inf), 0, 0, ""},
		{"zeros", floats(0), floats(math.Copysign(0, -1)), 0, 0, ""},
		{"a relative tolerance", floats(100), floats(101), 0.01, 0, ""},
		{"beyond a relative tolerance", floats(100), floats(101), 0.009, 0, `1 of 1 elements differ by more than 0 \+ 0.009\*\|want\|:\n\t\[0\]: 101, want 100`},
		{"an absolute tolerance", floats(0), floats(-0.5), 0, 0.5, ""},
		{"beyond an absolute tolerance", floats(0), floats(-0.5), 1, 0.4, `\[0\]: -0.5, want 0`},
		{"NaN", floats(1), floats(nan), 1, 1, `\[0\]: NaN, want 1`},
		{"an infinity", floats(1), floats(inf), 1, 1, `\[0\]: \+Inf, want 1`},
		{"infinities", floats(-inf), floats(inf), 1, 1, `want -Inf`},
		{"other types", integers(1, 2), floats(1, 2), 0, 0, ""},
		{"large integers", integers(math.MaxInt64), integers(math.MaxInt64 - 1), 0, 0, `\[0\]: 9223372036854775806, want 9223372036854775807`},
		{"large integers, with a tolerance", integers(math.MaxInt64), integers(math.MaxInt64 - 1), 0, 1, ""},
		{"large integers, with a tolerance that is too small", integers(math.MaxInt64), integers(math.MaxInt64 - 1), 0, 0.5, `\[0\]: 9223372036854775806`},
		{"large integers of other types", unsigned(1<<63 - 2), integers(1<<63 - 1), 0, 0, `\[0\]: 9223372036854775807, want 9223372036854775806`},
		{"equal integers of other types", unsigned(1<<63 - 1), integers(1<<63 - 1), 0, 0, ""},
		{"a large integer and a float", integers(1<<63 - 1), floats(1 << 63), 0, 0, `\[0\]: 9.223372036854776e\+18, want 9223372036854775807`},
		{"large floats", floats(1.7e308), floats(-1.7e308), 1, 0, `want 1.7e\+308`},
		{"many", floats(1, 2, 3, 4, 5, 6), floats(2, 3, 4, 5, 6, 7), 0, 0, `6 of 6.*\n\t\[0\]: 2, want 1\n(.*\n){4}\t\.\.\.$`},
		{"another shape", floats(1, 2), floats(1), 0, 0, `the shape is \[1\], want \[2\]`},
		{"closed", floats(1), closed, 0, 0, `closed`},
		{"bools", must.Own(dlpack.FromSlice([]bool{true}))(t), must.Own(dlpack.FromSlice([]bool{false}))(t), 0, 0, `false, want true`},
		{"complex numbers", complexes(3 + 4i), complexes(3 + 5i), 0.2, 0, ""},
		{"complex numbers beyond the tolerance", complexes(3 + 4i), complexes(3 + 5i), 0.1, 0, `\(3\+5i\), want \(3\+4i\)`},
		{"complex numbers with NaN", complexes(complex(inf, nan), complex(1, nan)), complexes(complex(inf, nan), complex(nan, 2)), 0, 0, ""},
		{"a complex number with NaN", complexes(complex(inf, 1)), complexes(complex(inf, nan)), 1, 1, `\(\+Inf\+NaNi\), want`},
		{"large complex numbers", complexes(1.7e308 + 1.7e308i), complexes(1.6e308 + 1.7e308i), 0.1, 0, ""},
		{"large complex numbers beyond the tolerance", complexes(1.7e308 + 1.7e308i), complexes(1.6e308 + 1.7e308i), 0.01, 0, `want \(1.7e\+308`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			assert.Equal(t, c.failure == "", AllClose(r, c.want, c.got, c.relative, c.absolute))
			if c.failure == "" {
				assert.Empty(t, r.failures)
			} else if assert.Len(t, r.failures, 1) {
				assert.Regexp(t, c.failure, r.failures[0])
			}
		})
	}
}

// For every layout, the failure names the index in the tensor.
func TestAllCloseNamesTheIndex(t *testing.T) {
	CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]int32{0, 1, 2, 3, 4, 5}, 3, 2))(t)
	want := must.Own(x.Transpose())(t)
	got := must.Own(want.Copy())(t)
	must.Do(0, got.SetAt(9, 1, 2))(t)
	r := &recorder{TB: t}
	AllClose(r, want, got, 0, 0)
	assert.Equal(t, []string{"1 of 6 elements differ by more than 0 + 0*|want|:\n\t[1 2]: 9, want 5"}, r.failures)
}
