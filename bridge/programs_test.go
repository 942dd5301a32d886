//go:build cgo

package bridge_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// programs lists the programs at the beginning of package comments, with the parameters that they use and the variables
// that a compiler would report as unused.
var programs = []struct{ file, parameters, unused string }{
	{"dlpack/doc.go", "", "err"},
	{"dlpack/layout/layout.go", "", "err"},
	{"dlpack/dlpacktest/doc.go", "", "TestImport"},
	{"tens/doc.go", "frames [][]byte", "err"},
	{"bridge/doc.go", "frames [][]byte, result *dlpack.Tensor, send func([][]byte) error", "[]any{ts, report, err}"},
	{"bridge/capi/doc.go", "", "double"},
	{"bridge/files/doc.go", "", "err"},
	{"bridge/gguf/doc.go", "data []byte", "[]any{arch, ok, err}"},
	{"bridge/gorgonia/doc.go", "t *dlpack.Tensor", "u"},
	{"bridge/nervana/doc.go", "t *dlpack.Tensor", "[]any{bound, err}"},
	{"bridge/npy/doc.go", "data []byte, file io.Writer, result *dlpack.Tensor", "[]any{w, err}"},
	{"bridge/safetensors/doc.go", "data []byte", "[]any{t, err}"},
	{"bridge/shm/doc.go", "ctx context.Context, conn *net.UnixConn", "[]any{ts, err}"},
	{"bridge/tvmffi/doc.go", "a, b []float32, c, x, y, z *dlpack.Tensor", "[]any{n, p, err}"},
	{"bridge/zeromq/doc.go", "t *dlpack.Tensor, pull *zeromq.Socket", "err"},
}

// Each package comment begins with a program of at most 15 lines that compiles.
func TestPackageCommentsBeginWithAProgram(t *testing.T) {
	var functions strings.Builder
	for _, p := range programs {
		text := string(must.Do(os.ReadFile(filepath.Join("..", p.file)))(t))
		block := regexp.MustCompile(`(?m)(?:^//\t.*\n|^//\n)+`).FindString(text[strings.Index(text, "//\n//\t"):])
		lines := strings.Split(strings.Trim(strings.ReplaceAll(block, "//", ""), "\n"), "\n")
		assert.LessOrEqual(t, len(lines), 15, p.file)
		head, _, _ := strings.Cut(text, "//\n//\t")
		assert.LessOrEqual(t, strings.Count(head, "\n"), 5, "%s: lines before the program", p.file)
		code := regexp.MustCompile(`(?m)(?:^//\t(.*)\n|^//\n)`).ReplaceAllString(block, "$1\n")
		if strings.Contains(code, "func doubled") || strings.Contains(code, "func Test") {
			fmt.Fprintf(&functions, "%s\nvar _ = %s\n", code, p.unused)
		} else {
			fmt.Fprintf(&functions, "func _(%s) error {\n%s\n_ = %s\nreturn nil\n}\n", p.parameters, code, p.unused)
		}
	}
	source := "package programs\n\nimport (\n"
	for _, path := range []string{
		"context", "fmt", "io", "log", "net", "testing", "unsafe", "github.com/stretchr/testify/require",
	} {
		source += fmt.Sprintf("%q\n", path)
	}
	for _, p := range programs {
		source += fmt.Sprintf("%q\n", module+filepath.Dir(p.file))
	}
	file := filepath.Join(t.TempDir(), "programs.go")
	require.NoError(t, os.WriteFile(file, []byte(source+")\n\n"+functions.String()), 0o600))
	said, err := exec.Command("go", "build", "-o", os.DevNull, file).CombinedOutput()
	assert.NoError(t, err, "%s\n%s", said, functions.String())
}

// Most users read first what `go doc ./dlpack` prints before the index.
func TestTheCommentOfDLPackIsShort(t *testing.T) {
	text := string(must.Do(exec.Command("go", "doc", "../dlpack").Output())(t))
	comment, _, found := strings.Cut(text, "\nconst ")
	require.True(t, found)
	assert.LessOrEqual(t, strings.Count(comment, "\n"), 85)
}
