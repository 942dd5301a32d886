//go:build cgo

package dlpack_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// The formats have little-endian elements, and this module does not swap bytes, so it does not build for big-endian
// machines.
func TestBigEndianMachinesAreRefusedAtBuildTime(t *testing.T) {
	const reason, file = "does_not_support_big_endian_machines", "bigendian.go"
	platforms := must.Do(exec.Command("go", "tool", "dist", "list").Output())(t)
	refused := []string{}
	for platform := range strings.FieldsSeq(string(platforms)) {
		arch, ok := strings.CutPrefix(platform, "linux/")
		if !ok {
			continue
		}
		list := exec.Command("go", "list", "-f", "{{.GoFiles}}", ".")
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		out, err := list.Output()
		require.NoError(t, err, platform)
		if strings.Contains(string(out), file) {
			refused = append(refused, arch)
		}
	}
	assert.Equal(t, []string{"mips", "mips64", "ppc64", "s390x"}, slices.Sorted(slices.Values(refused)))
	files := token.NewFileSet()
	parsed := must.Do(parser.ParseFile(files, file, nil, 0))(t)
	_, err := new(types.Config).Check("dlpack", files, []*ast.File{parsed}, nil)
	assert.ErrorContains(t, err, reason)

	compile := exec.Command("cc", "-fsyntax-only", "-I../include", "-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__", "-x", "c", "internal/core/core.h")
	out, err := compile.CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "does not support big-endian machines")
}
