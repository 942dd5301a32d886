//go:build cgo

package formats_test

import (
	"testing"

	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

func TestReadingTakesMemoryInProportionToTheInput(t *testing.T) {
	testmode.SkipMemory(t)
	for _, f := range formats.All {
		for name, data := range f.Hostile() {
			t.Run(f.Name()+"/"+name, func(t *testing.T) { f.Measure(t, data, !testing.Short()) })
		}
	}
}
