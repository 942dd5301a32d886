package bridge_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Without cgo, the compiler's message for a function that needs it says so.
func TestWithoutCgoTheCompilerNamesTheReason(t *testing.T) {
	for _, c := range []struct{ folder, call string }{
		{"dlpack", "t, err := dlpack.New(dlpack.Float32, 2, 3); _, _ = t, err"},
		{"dlpack", "t, err := dlpack.FromSlice([]float32{1}); _, _ = t, err"},
		{"dlpack", "x, err := dlpack.Values[float32](nil); _, _ = x, err"},
		{"dlpack", "t, err := dlpack.Import(nil); _, _ = t, err"},
		{"bridge", "ts, err := bridge.Decode(nil); _, _ = ts, err"},
		{"bridge/decthings", "v, err := decthings.Decode(nil); _, _ = v, err"},
		{"bridge/tensorflow", "v, err := tensorflow.Decode(nil); _, _ = v, err"},
		{"bridge/nervana", "d := nervana.Describe(nil); _ = d"},
	} {
		t.Run(c.call, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "main.go")
			program := fmt.Sprintf("package main\n\nimport \"github.com/dlbridge/dlbridge/%s\"\n\nfunc main() {\n\t%s\n}\n", c.folder, c.call)
			require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
			build := func(cgo string) (string, error) {
				command := exec.Command("go", "vet", file)
				command.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
				out, err := command.CombinedOutput()
				return string(out), err
			}
			out, err := build("0")
			require.Error(t, err)
			assert.Contains(t, out, "needsCgo")
			out, err = build("1")
			assert.NoError(t, err, out)
		})
	}
}
