package bridge_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// Every test and every test file that .ci/README.md names exists.
func TestProofsThatAreNamedExist(t *testing.T) {
	text := must.Do(os.ReadFile("../.ci/README.md"))(t)
	named := regexp.MustCompile("`((?:Test|Fuzz|test_)[A-Za-z0-9_]+(?:\\.py)?)").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, named)
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^(?:func|def) ((?:Test|Fuzz|test_)\w+)`)
	for _, folder := range []string{"../bridge", "../dlpack", "../tens"} {
		require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // another check has removed its temporary folder
				return nil
			}
			name := entry.Name()
			if err != nil || !strings.HasSuffix(name, "_test.go") && (!strings.HasPrefix(name, "test_") || !strings.HasSuffix(name, ".py")) {
				return err
			}
			tests[name] = true
			source, err := os.ReadFile(filepath.Join(folder, path))
			for _, test := range declared.FindAllSubmatch(source, -1) {
				tests[string(test[1])] = true
			}
			return err
		}))
	}
	for _, name := range named {
		assert.True(t, tests[name[1]], name[1])
	}
}
