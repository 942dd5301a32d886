//go:build cgo

package dlpacktest

import (
	"fmt"
	"math"
	"math/cmplx"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// shown is the number of differing elements that AllClose prints.
const shown = 5

// AllClose fails the test unless got has the shape of want, and each element differs from that of want by at most
// absolute + relative*|want|, as assert_allclose of NumPy. The data types may differ. NaN is close to NaN, and an infinity to the
// same infinity. With tolerances of 0 all elements must be equal, integers too large for a float among them. It reports whether
// they are close. The text of the failure has the number of elements that differ, and the first of them.
//
// Errors: the test also fails for tensors that are closed or that [dlpack.Tensor.At] cannot read.
func AllClose(t testing.TB, want, got *dlpack.Tensor, relative, absolute float64) bool {
	t.Helper()
	if !slices.Equal(want.Shape(), got.Shape()) {
		t.Errorf("the shape is %v, want %v", got.Shape(), want.Shape())
		return false
	}
	var lines []string
	differ, count, index := 0, want.NumElements(), make([]int64, want.Rank())
	for range count {
		w, err := want.At(index...)
		if err != nil {
			t.Errorf("want: %v", err)
			return false
		}
		g, err := got.At(index...)
		if err != nil {
			t.Errorf("got: %v", err)
			return false
		}
		if !isClose(w, g, relative, absolute) {
			if differ < shown {
				lines = append(lines, fmt.Sprintf("\n\t%v: %v, want %v", index, g, w))
			}
			differ++
		}
		advance(index, want.Shape())
	}
	if err := want.RequireOpen(); err != nil {
		t.Errorf("want: %v", err)
		return false
	}
	if err := got.RequireOpen(); err != nil {
		t.Errorf("got: %v", err)
		return false
	}
	if differ == 0 {
		return true
	}
	if differ > shown {
		lines = append(lines, "\n\t...")
	}
	t.Errorf("%d of %d elements differ by more than %v + %v*|want|:%s", differ, count, absolute, relative, strings.Join(lines, ""))
	return false
}

// advance sets index to the next one of a shape, the last dimension fastest.
func advance(index, shape []int64) {
	for d := len(index) - 1; d >= 0; d-- {
		if index[d]++; index[d] < shape[d] {
			return
		}
		index[d] = 0
	}
}

// isClose reports whether two results of [dlpack.Tensor.At] are close.
func isClose(want, got any, relative, absolute float64) bool {
	if want == got {
		return true
	}
	w, g := repotest.Number(want), repotest.Number(got)
	if cmplx.IsNaN(w) || cmplx.IsNaN(g) {
		return cmplx.IsNaN(w) && cmplx.IsNaN(g)
	}
	if cmplx.IsInf(w) || cmplx.IsInf(g) {
		return w == g
	}
	apart := cmplx.Abs(g - w)
	if reflect.TypeOf(want) == reflect.TypeOf(got) {
		apart = max(apart, math.SmallestNonzeroFloat64) // different integers may be one float
	}
	return apart <= absolute+relative*cmplx.Abs(w)
}
