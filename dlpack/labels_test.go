package dlpack_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	ownership  = regexp.MustCompile(`\bOwnership[:,]`)
	fourLabels = regexp.MustCompile(`\bOwnership[:,].*\bLifetime[:,].*\bThreads[:,].*\bOn error(?: \([^)]*\))?: \S`)
)

// If the comment of an exported Go function has the label Ownership, it has all four labels, as in C.
func TestCommentsOnOwnershipHaveTheFourLabels(t *testing.T) {
	found := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "build" || name == "testdata" || strings.HasPrefix(name, ".") && name != "..") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			if text := strings.Join(strings.Fields(f.Doc.Text()), " "); ownership.MatchString(text) {
				found++
				assert.Regexp(t, fourLabels, text, "%s: %s", path, f.Name)
			}
		}
		return nil
	}))
	require.Greater(t, found, 50)
}
