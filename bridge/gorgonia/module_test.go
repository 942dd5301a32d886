//go:build cgo

package gorgonia_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// If this test runs at all, a program with the adapter starts on this version of Go. A program without the adapter must
// not contain gorgonia.
func TestOnlyThisPackageImportsGorgonia(t *testing.T) {
	const root = "github.com/dlbridge/dlbridge/"
	list := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`, root+"...")
	out, err := list.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var importers []string
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		if slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(p, "gorgonia.org/") }) {
			importers = append(importers, strings.TrimPrefix(packages[0], root))
		}
	}
	assert.Equal(t, []string{"bridge/gorgonia", "examples/gorgonia", "examples/pipeline"}, importers)
}

// gorgonia's latest version does not resolve, and this version does not start without assume-no-moving-gc.
func TestModuleRequiresWhatWorks(t *testing.T) {
	text := must.Do(os.ReadFile("../../go.mod"))(t)
	assert.Contains(t, string(text), "gorgonia.org/tensor v0.9.24\n")
	assert.Contains(t, string(text), "go4.org/unsafe/assume-no-moving-gc v0.0.0-20231121144256-b99613f794b6")
}
