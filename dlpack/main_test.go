//go:build cgo

package dlpack_test

import (
	"os"
	"testing"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

// The ledger is off unless a test switches it on: it allocates, and its mutex would hide races.
func TestMain(m *testing.M) {
	if os.Getenv("DLBRIDGE_LEDGER") == "" {
		os.Setenv("DLBRIDGE_LEDGER", "0")
	}
	dlpacktest.Main(m)
}
