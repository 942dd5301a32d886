//go:build cgo

package capi_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// An object of a report: its kind and size, and its stack without the frames of the library.
type ledgerEntry struct {
	head  string
	stack []string
}

var ledgerHead = regexp.MustCompile(`^dlbridge: (.*) at 0x[0-9a-f]+(, \d+ bytes), made by$`)

// parseLedger reads a report. Frames are lines with four spaces.
func parseLedger(t *testing.T, report string) (objects []ledgerEntry) {
	lines := strings.Split(strings.TrimSuffix(report, "\n"), "\n")
	require.Regexp(t, `^dlbridge: process \d+ has \d+ live objects?$`, lines[0])
	for _, line := range lines[1:] {
		if m := ledgerHead.FindStringSubmatch(line); m != nil {
			objects = append(objects, ledgerEntry{head: m[1] + m[2]})
			continue
		}
		frame, found := strings.CutPrefix(line, "    ")
		require.True(t, found && len(objects) > 0, line)
		last := &objects[len(objects)-1]
		last.stack = append(last.stack, frame)
	}
	return objects
}

// ledgerReport runs ledger.c and returns what it prints to stderr.
func ledgerReport(t *testing.T, program, command string, environment ...string) string {
	var report strings.Builder
	c := exec.Command(program, command)
	c.Env = append(append(os.Environ(), sanitized...), environment...)
	c.Env = append(c.Env, "ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0")
	c.Stderr = &report
	require.NoError(t, c.Run(), &report)
	return report.String()
}

// The report at exit has the objects that are live after the functions of atexit and the destructors of the program,
// each with the functions of the program that made it. Nothing is printed if all objects were released, or without the
// environment variable.
func TestLedgerPrintsLiveObjectsAtExit(t *testing.T) {
	t.Parallel()
	program := compile(t, "cc", "ledger.c", append(append(slices.Clone(c11), libraryFlags(t)...), "-rdynamic")...)
	report := ledgerReport(t, program, "leave", "DLBRIDGE_LEDGER=1")
	want := []struct {
		head  string
		calls []string
	}{
		{"tensor, 24 bytes", []string{"make_tensor", "main"}},
		{"tensor, 24 bytes", []string{"make_tensor", "make_legacy", "main"}},
		{"legacy tensor, 24 bytes", []string{"make_legacy", "main"}},
		{"message, 111 bytes", []string{"make_message", "main"}},
		{"frame, 8 bytes", []string{"make_frame", "main"}},
		{"elements, 13 bytes", []string{"make_elements", "main"}},
	}
	objects := parseLedger(t, report)
	require.Len(t, objects, len(want), report)
	for i, w := range want {
		assert.Equal(t, w.head, objects[i].head)
		var calls []string
		for _, frame := range objects[i].stack {
			name, _, _ := strings.Cut(frame, " ")
			if strings.HasPrefix(name, "make_") || name == "main" {
				calls = append(calls, name)
			}
		}
		assert.Equal(t, w.calls, calls, report)
	}
	for _, environment := range []string{"DLBRIDGE_LEDGER=0", "DLBRIDGE_LEDGER="} {
		assert.Empty(t, ledgerReport(t, program, "leave", environment))
	}
}

// Without -rdynamic the functions of a program have no names. addr2line finds their lines from the addresses in the
// report.
func TestLedgerPrintsAddressesForAddr2line(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	for _, kind := range []string{"-pie", "-no-pie"} {
		t.Run(kind, func(t *testing.T) {
			flags := append(slices.Clone(c11), linked(dir, "dlbridge")...)
			flags = slices.DeleteFunc(flags, func(flag string) bool { return flag == "-rdynamic" })
			if kind == "-pie" {
				flags = append(flags, "-fPIE")
			} else {
				flags = append(flags, "-fno-pie")
			}
			program := compile(t, "cc", "ledger.c", append(flags, kind)...)
			objects := parseLedger(t, ledgerReport(t, program, "leave", "DLBRIDGE_LEDGER=1"))
			require.NotEmpty(t, objects)
			require.Greater(t, len(objects[0].stack), 1)
			assert.True(t, strings.HasPrefix(objects[0].stack[0], "dlb_tensor_alloc ("), objects[0].stack[0])
			address, found := strings.CutPrefix(objects[0].stack[1], program+"+")
			require.True(t, found, objects[0].stack[1])
			line := run(t, nil, nil, "addr2line", "-f", "-e", program, address)
			assert.Regexp(t, `^make_tensor\n.*ledger\.c:\d+`, line)
		})
	}
}

func TestLedgerIsWrittenOnRequest(t *testing.T) {
	t.Parallel()
	program := compile(t, "cc", "ledger.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	objects := parseLedger(t, ledgerReport(t, program, "request"))
	require.Len(t, objects, 1)
	assert.Equal(t, "tensor, 24 bytes", objects[0].head)
}
