//go:build cgo

package nervana_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/dlbridge/dlbridge/dlpack"
)

// TestMain fails if the tests leave tensors behind.
func TestMain(m *testing.M) {
	code := m.Run()
	s := dlpack.ReadStats()
	if code == 0 && (s.Exports != 0 || s.Imports != 0 || s.Allocations != 0) {
		fmt.Fprintf(os.Stderr, "tensors were left behind: %+v\n", s)
		code = 1
	}
	os.Exit(code)
}
