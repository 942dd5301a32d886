package errtext_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// ordinary has the names of exported functions that are also words of ordinary texts. A name after "the", as in "the
// Reader", is the name of a type.
var ordinary = map[string]bool{"CPU": true, "Go": true, "Tensor": true, "Elements": true, "Reader": true}

var (
	word     = regexp.MustCompile(`\b(?:the )?[A-Z][A-Za-z0-9]*\b`)
	ofC      = regexp.MustCompile(`\b(dlb|DLB)_\w+`)
	ofPython = regexp.MustCompile(`Python|\b[a-z_]+\(\)|\b[a-z_]+=( |$)`)
	clause   = regexp.MustCompile(`; ?[^;:]*`)
)

// texts returns the literals in the Go files of the given packages and of the packages of this module that they import,
// by their places. It also returns the names of the exported functions and methods there.
func texts(t *testing.T, packages ...string) (literals map[string]string, functions map[string]bool) {
	t.Helper()
	literals, functions = map[string]string{}, map[string]bool{}
	list := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,GoFiles,CgoFiles,Module"}, packages...)...)
	list.Dir = "../../.."
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // these packages need cgo
	list.Stderr = os.Stderr
	out := must.Do(list.Output())(t)
	files := token.NewFileSet()
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			Dir               string
			GoFiles, CgoFiles []string
			Module            *struct{ Main bool }
		}
		require.NoError(t, d.Decode(&p))
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			if name == "remedies.go" { // has parts of error texts, not whole texts
				continue
			}
			file := must.Do(parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0))(t)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ImportSpec:
					return false
				case *ast.FuncDecl:
					if n.Name.IsExported() {
						functions[n.Name.Name] = true
					}
				case *ast.BasicLit:
					if n.Kind == token.STRING && strings.Contains(n.Value, " ") { // a single word is not a text
						literals[files.Position(n.Pos()).String()] = must.Do(strconv.Unquote(n.Value))(t)
					}
				}
				return true
			})
		}
	}
	return literals, functions
}

// foreign returns the names in a text that are names of functions.
func foreign(text string, functions map[string]bool) (names []string) {
	for _, name := range word.FindAllString(text, -1) {
		if functions[name] && !ordinary[name] {
			names = append(names, name)
		}
	}
	return names
}

func TestTextsOfErrorsNameNoFunctionOfAnotherLanguage(t *testing.T) {
	literals, functions := texts(t, "./bridge/capi")
	translated := 0
	for place, text := range literals {
		if strings.Contains(text, "io.Reader") {
			continue // of a type that only Go has
		}
		inC, inPython := errtext.InC(text), errtext.InPython(text)
		assert.Empty(t, foreign(inC, functions), "%s: %q has functions of Go; a row of remedies.h says what C has instead", place, text)
		assert.Empty(t, foreign(inPython, functions), "%s: %q has functions of Go; a row of remedies.h says what Python has instead", place, text)
		assert.NotRegexp(t, ofPython, inC, place)
		assert.NotRegexp(t, ofC, inPython, place)
		if inC != text {
			translated++
		}
	}
	assert.Greater(t, translated, 30)
}

func TestTextsOfErrorsUnderTVMFFINameNoFunctionOfGo(t *testing.T) {
	literals, functions := texts(t, "./bridge/tvmffi")
	for place, text := range literals {
		assert.Empty(t, foreign(errtext.InPython(text), functions), "%s: %q has functions of Go", place, text)
	}
}

// clauses returns the clauses behind semicolons in the string literals of a file in C or Python, without its comments and
// documentation.
func clauses(t *testing.T, file string) (found []string) {
	t.Helper()
	text, other := string(must.Do(os.ReadFile(file))(t)), `(?s)/\*.*?\*/|PyDoc_STRVAR\(.*?"\);`
	if filepath.Ext(file) == ".py" {
		other = `(?s)""".*?"""|#[^\n]*`
	}
	text = regexp.MustCompile(other).ReplaceAllString(text, "")
	text = regexp.MustCompile(`["']\s*\n\s*f?["']`).ReplaceAllString(text, "") // literals that the compiler joins
	for _, literal := range regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`).FindAllString(text, -1) {
		found = append(found, clause.FindAllString(literal, -1)...)
	}
	return found
}

// The texts of the C files that Go, C and Python share, and of the Python package, name no function of another language.
// Texts of the core name functions of C. Each of these has a row in remedies.h, which has the words of Python.
func TestTextsOfErrorsInCAndPythonNameNoFunctionOfAnotherLanguage(t *testing.T) {
	_, functions := texts(t, "./bridge/capi", "./bridge/shm")
	remedies := regexp.MustCompile(`"[^"]*\bdlb_[^"]*"`).FindAllString(string(must.Do(os.ReadFile("remedies.h"))(t)), -1)
	for files, isC := range map[string]bool{
		"../../../dlpack/internal/core/*.c": true, "../../capi/*.c": true, "../segment/*.c": false,
		"../../python/src/*.c": false, "../../python/dlbridge/*.py": false,
	} {
		found := 0
		for _, name := range must.Do(filepath.Glob(files))(t) {
			for _, clause := range clauses(t, name) {
				found++
				assert.Empty(t, foreign(clause, functions), "%s: %s", name, clause)
				if isC {
					assert.NotRegexp(t, ofPython, clause, name)
				} else {
					assert.NotRegexp(t, ofC, strings.ReplaceAll(clause, "dlb_error *", ""), name) // a parameter, in texts of wrap
				}
				toC := strings.Contains(clause, "dlb_tensor_share or") // a line on stderr about a deleter, which only C calls
				if strings.Contains(files, "core") && ofC.MatchString(clause) && !toC {
					hasRow := slices.ContainsFunc(remedies, func(r string) bool { return strings.Contains(clause, strings.Trim(r, `"`)) })
					assert.True(t, hasRow, "%s: %s", name, clause)
				}
			}
		}
		assert.NotZero(t, found, files)
	}
}

func TestTextsOfErrorsInGoNameNoFunctionOfAnotherLanguage(t *testing.T) {
	literals, _ := texts(t, "./bridge/...")
	found := 0
	for place, text := range literals {
		for _, clause := range clause.FindAllString(text, -1) {
			found++
			assert.NotRegexp(t, ofC, clause, place)
			assert.NotRegexp(t, ofPython, clause, place)
		}
	}
	assert.Greater(t, found, 100)
}

func TestTextsWithoutWaysOutNameNoFunctionOfGo(t *testing.T) {
	literals, functions := texts(t, "./bridge/...")
	for _, what := range []string{"File", "Offers", "TensorProto"} { // words with other meanings, and the function that was called
		delete(functions, what)
	}
	ofPackage := regexp.MustCompile(`\w+\.[A-Z]\w*`) // types, fields and functions that were called
	shorter := 0
	for place, text := range literals {
		if strings.Contains(place, "test/") || strings.Contains(place, "/internal/formats/") || strings.Contains(text, "io.Reader") {
			continue // texts of tests
		}
		without := errtext.WithoutRemedies(text)
		if without == text {
			without = errtext.WithoutRemedies("; " + text) // the remedy itself
		} else {
			shorter++
		}
		assert.Empty(t, foreign(ofPackage.ReplaceAllString(without, ""), functions), "%s: %q names functions behind a semicolon that neither remedies.h nor goOnly has", place, text)
	}
	assert.Greater(t, shorter, 30)
}

func TestOnlyWaysOutAreLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"dlpack: use: the tensor is read-only; Read reads it, Copy makes a writable one":                 "dlpack: use: the tensor is read-only",
		"tensorflow: byte 2: 9 elements take more than 4 bytes; Limit allows more: more than is allowed": "tensorflow: byte 2: 9 elements take more than 4 bytes: more than is allowed",
		"a: frame too large; separate frames have no limit: b":                                           "a: frame too large; separate frames have no limit: b",
		"one; Convert makes it float32\ntwo; set Shape; three":                                           "one\ntwo; three",
		"Copy makes": "Copy makes",
	} {
		assert.Equal(t, want, errtext.WithoutRemedies(text))
	}
}

func TestWaysOutAreInTheLanguageOfTheCaller(t *testing.T) {
	text := "the tensor has float64, want float32; Convert makes a copy of that type"
	assert.Equal(t, "the tensor has float64, want float32; dlb_tensor_convert makes a copy of that type", errtext.InC(text))
	assert.Equal(t, "the tensor has float64, want float32; astype() makes a copy of that type", errtext.InPython(text))
}
