//go:build cgo

package dlpacktest

import (
	"fmt"
	"math"
	"math/big"
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

// AllClose fails the test unless got has the shape of want, and each element differs from the element of want by at most absolute
// + relative*|want|, as in NumPy's assert_allclose. It reports whether all are close. The data types may differ. NaN is close to
// NaN, and an infinity to the same infinity. A complex number counts as NaN if one of its parts is NaN. Integers that are too
// large for a float are compared exactly. The failure text has the number of differing elements, and the first of them.
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

// advance sets index to the next index of a shape, the last dimension fastest.
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
	switch {
	case hasNaN(w) || hasNaN(g):
		return hasNaN(w) && hasNaN(g)
	case cmplx.IsInf(w) || cmplx.IsInf(g):
		return w == g
	}
	apart, _ := new(big.Float).Sub(exactly(got), exactly(want)).Float64() // 0 only if they are equal
	return math.Hypot(apart, imag(g)-imag(w)) <= absolute+math.Hypot(relative*real(w), relative*imag(w))
}

// hasNaN reports whether a part of a number is NaN. For NumPy the number is then NaN.
func hasNaN(x complex128) bool { return math.IsNaN(real(x)) || math.IsNaN(imag(x)) }

// exactly returns a finite real number, or the real part of a complex number.
func exactly(x any) *big.Float {
	switch v := reflect.ValueOf(x); {
	case v.CanInt():
		return new(big.Float).SetInt64(v.Int())
	case v.CanUint():
		return new(big.Float).SetUint64(v.Uint())
	}
	return big.NewFloat(real(repotest.Number(x)))
}
