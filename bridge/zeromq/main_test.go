//go:build cgo

package zeromq_test

import (
	"testing"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }
