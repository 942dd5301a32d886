//go:build cgo

package bridge_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// programs has the variables that the programs in package comments use without declaring them.
var programs = repotest.Programs{
	"":                "data []byte, result *dlpack.Tensor",
	"bridge":          "frames [][]byte, ts []*dlpack.Tensor, result *dlpack.Tensor, send func([][]byte) error",
	"bridge/gorgonia": "t *dlpack.Tensor",
	"bridge/nervana":  "t *dlpack.Tensor",
	"bridge/npy":      "data []byte, file io.Writer, result *dlpack.Tensor",
	"bridge/shm":      "ctx context.Context, conn *net.UnixConn, t *dlpack.Tensor, ts []*dlpack.Tensor, push, pull *zeromq.Socket",
	"bridge/tvmffi":   "a, b []float32, c, x, y, z *dlpack.Tensor",
	"bridge/zeromq":   "ctx context.Context, t *dlpack.Tensor, ts []*dlpack.Tensor, pull *zeromq.Socket, server *zeromq.Socket",
	"tens":            "frames [][]byte",
}

// needNoProgram matches packages that are for tests, are for few users, or have no functions.
var needNoProgram = regexp.MustCompile(`test$|/dlpacktest/|/peers|^dlpack/(background|frames)$|^tens/strictjson$|^include`)

// Each package comment begins with a program of at most 15 lines. All programs of the comment compile.
func TestPackageCommentsBeginWithAProgram(t *testing.T) {
	var folders []string
	list := string(must.Do(exec.Command("go", "list", "-f", "{{.Name}} {{.ImportPath}}", "../...").Output())(t))
	for line := range strings.Lines(list) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = strings.TrimPrefix(path, repotest.Module)
		if name != "main" && !strings.Contains(path, "internal/") && !strings.HasPrefix(path, "examples/") {
			folders = append(folders, path)
		}
	}
	for _, folder := range programs.Check(t, "..", folders...) {
		assert.Regexp(t, needNoProgram, folder, "the package comment has no program")
	}
}

// Most users read first what `go doc ./dlpack` prints before the index.
func TestTheCommentOfDLPackIsShort(t *testing.T) {
	text := string(must.Do(exec.Command("go", "doc", "../dlpack").Output())(t))
	comment, _, found := strings.Cut(text, "\nconst ")
	require.True(t, found)
	assert.LessOrEqual(t, strings.Count(comment, "\n"), 85)
}
