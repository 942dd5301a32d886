//go:build cgo

package capi_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// Two Go libraries in one process exchange tensors in both directions while both garbage collectors run. Go does
// not officially support this. With DLBRIDGE_STRESS the test takes minutes.
func TestTwoGoLibrariesExchangeTensors(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	rounds := 10_000
	if os.Getenv("DLBRIDGE_STRESS") != "" {
		rounds = 250_000
	}
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.so"), filepath.Join(dir, "second.so")
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-o", first, "./testdata/two_runtimes")
	require.NoError(t, os.WriteFile(second, read(t, first), 0o755)) // a copy of the file has a runtime of its own
	program := compile(t, "cc", "two_runtimes.c", append(slices.Clone(c11), "-ldl", "-lpthread")...)
	for _, mode := range []string{"local", "global"} {
		t.Run(mode, func(t *testing.T) {
			run(t, nil, nil, program, first, second, mode, strconv.Itoa(rounds))
		})
	}
}
