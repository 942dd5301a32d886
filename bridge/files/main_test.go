//go:build cgo && (linux || darwin)

package files_test

import (
	"testing"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }
