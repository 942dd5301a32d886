// Package must ends a test when a call has an unexpected result.
package must

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// Do returns the value of a call that returns a value and an error. The test, which is passed to the result of Do, fails if
// there is an error:
//
//	x := must.Do(dlpack.New(dlpack.Float32, 2, 3))(t)
func Do[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// Own is Do for a value that the end of the test closes.
func Own[T io.Closer](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { value.Close() })
		return value
	}
}

// Fail is for a call that must fail: the test fails unless the error is target.
func Fail[T any](_ T, err error) func(t testing.TB, target error) {
	return func(t testing.TB, target error) {
		t.Helper()
		require.ErrorIs(t, err, target)
	}
}
