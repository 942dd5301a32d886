package repotest

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Module begins the import paths of the packages of this module.
const Module = "github.com/dlbridge/dlbridge/"

// Programs has the parts of programs that package comments leave out. The key is the folder of the package in the
// repository, or empty for all other packages. The value declares the variables that the programs use, in the form of
// parameters.
type Programs map[string]string

var (
	block    = regexp.MustCompile(`(?m)(?:^\t.*\n\n?)+`)
	noCode   = regexp.MustCompile(`^\t(?:(?:function|memory|verb)  |View, Slice, |frames ──|cc )`) // tables, drawings, commands
	variable = regexp.MustCompile(`(?m)^\t(\w+(?:, \w+)*) :=`)
	imports  = []string{
		"context", "fmt", "io", "log", "net", "testing", "time", "unsafe", "github.com/stretchr/testify/require", Module + "dlpack",
	}
)

// Check compiles the programs in the comments of the packages in folders. root is the folder of the repository. The first
// program of each comment must be near the beginning of the comment, and short. Check returns the packages whose comments do
// not begin with a program.
func (p Programs) Check(t testing.TB, root string, folders ...string) (without []string) {
	t.Helper()
	var code bytes.Buffer
	paths := slices.Clone(imports)
	for folder := range p {
		if folder != "" && !slices.Contains(folders, folder) {
			t.Errorf("there is no package %s", folder)
		}
	}
	for _, folder := range folders {
		text := comment(t, filepath.Join(root, folder))
		blocks := block.FindAllStringIndex(text, -1)
		if blocks == nil || noCode.MatchString(text[blocks[0][0]:]) {
			without = append(without, folder)
			continue
		}
		paths = append(paths, Module+folder)
		if n := strings.Count(text[:blocks[0][0]], "\n"); n > 6 {
			t.Errorf("%s: %d lines before the program", folder, n)
		}
		if n := strings.Count(strings.TrimSpace(text[blocks[0][0]:blocks[0][1]]), "\n") + 1; n > 15 {
			t.Errorf("%s: the program has %d lines", folder, n)
		}
		given, found := p[folder]
		if !found {
			given = p[""]
		}
		for _, b := range blocks {
			switch text := text[b[0]:b[1]]; {
			case noCode.MatchString(text):
			case strings.Contains(text, "\tfunc "):
				code.WriteString(text)
			default:
				fmt.Fprintf(&code, "func _(%s) error {\n\t{\n%s", given, text)
				for _, names := range variable.FindAllStringSubmatch(text, -1) {
					for name := range strings.SplitSeq(names[1], ", ") {
						if name != "_" {
							fmt.Fprintf(&code, "\t_ = %s\n", name)
						}
					}
				}
				code.WriteString("\t}\n\treturn nil\n}\n")
			}
		}
	}
	source := "package programs\n\nimport (\n"
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if regexp.MustCompile(`\b` + path.Base(p) + `\.`).Match(code.Bytes()) {
			source += fmt.Sprintf("%q\n", p)
		}
	}
	file := filepath.Join(t.TempDir(), "programs.go")
	if err := os.WriteFile(file, []byte(source+")\n\n"+code.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("go", "build", "-o", os.DevNull, file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, said, code.String())
	}
	return without
}

// comment returns the package comment of the package in a folder.
func comment(t testing.TB, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if text := file.Doc.Text(); strings.HasPrefix(text, "Package ") && !strings.HasSuffix(name, "_test.go") {
			return text
		}
	}
	return ""
}
