package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// CheckFunctionsOfTensors reads the package in a folder. It fails the test unless names lists exactly its exported functions and
// methods that take a tensor, methods of Tensor among them. A test uses it to check that its table of operations is complete. A
// name may be followed by a comma and a text that distinguishes several cases of a function.
func CheckFunctionsOfTensors(t testing.TB, folder string, names []string) {
	t.Helper()
	functions, known := functionsOfTensors(t, folder), map[string]bool{}
	for _, name := range names {
		name, _, _ := strings.Cut(name, ",")
		known[name] = true
		if !slices.Contains(functions, name) {
			t.Errorf("%s is not a function that accepts a tensor", name)
		}
	}
	for _, name := range functions {
		if !known[name] {
			t.Errorf("%s accepts a tensor, but is in no table of operations", name)
		}
	}
}

// functionsOfTensors reads the Go files in a folder, without the tests. It returns the names of the exported functions that
// take a tensor, and of the exported methods of Tensor.
func functionsOfTensors(t testing.TB, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				name = strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "." + name
			}
			if strings.HasPrefix(name, "Tensor.") && file.Name.Name == "dlpack" || takesTensors(f.Type) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s has no functions that accept a tensor", folder)
	}
	return names
}

// tensorType matches types that contain a tensor type: *dlpack.Tensor, or *Tensor in package dlpack itself.
var tensorType = regexp.MustCompile(`(^|[^.\w]|\bdlpack\.)Tensor\b`)

// takesTensors reports whether a function has a parameter whose type contains Tensor, unless the parameter is a function.
func takesTensors(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(parameter *ast.Field) bool {
		text := types.ExprString(parameter.Type)
		return !strings.HasPrefix(text, "func") && tensorType.MatchString(text)
	})
}
