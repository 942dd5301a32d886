//go:build cgo

package capi_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/include"
)

// The tests read the declarations from dlbridge.h, so that there is no second list of them.

// A function of the header, the library that its section names, and the comment before it.
type function struct {
	library, comment, result, name string
	parameters                     []parameter
}

// A parameter: its declaration, type and name, such as "const dlb_frame *frames", "const dlb_frame *", "frames".
type parameter struct{ text, kind, name string }

// A structure of the header, with the declarations and names of its fields. An opaque structure has none.
type structure struct {
	name          string
	fields, names []string
}

type declarations struct {
	library    string // of the section that is being read
	functions  []function
	structures []structure
	constants  []string // enumerators, and macros that are numbers
}

var (
	commentPattern   = regexp.MustCompile(`(?s)/\*.*?\*/`)
	libraryPattern   = regexp.MustCompile(`^/\* ---- [^/]*\n \* Library: (\w+)\.`)
	functionPattern  = regexp.MustCompile(`^(?:DLB_NODISCARD )?DLB_API (.*?)(\w+)\((.*)\)$`)
	structurePattern = regexp.MustCompile(`^typedef struct (\w+)(?: \{(.*)\})? (\w+)$`)
	macroPattern     = regexp.MustCompile(`(?m)^#define (DLB_\w+) +((?:[(\d]|UINT64_C).*)$`)
	parameterPattern = regexp.MustCompile(`^(.*?)(\w+)$`)
	namePattern      = regexp.MustCompile(`\(\*(\w+)\)|(\w+)(?:\[\d+\])?$`)
)

// header reads the declarations of dlbridge.h.
func header(t testing.TB) declarations { return parse(t, include.Header) }

// parse reads the declarations of a header. Everything that it does not understand is an error, so that no declaration
// is skipped.
func parse(t testing.TB, source string) (d declarations) {
	source, _, found := strings.Cut(strings.TrimPrefix(source, "/*"), "#ifdef __cplusplus\n}")
	require.True(t, found)
	_, source, found = strings.Cut(source, "extern \"C\" {\n#endif\n")
	require.True(t, found)
	for _, m := range macroPattern.FindAllStringSubmatch(source, -1) {
		d.constants = append(d.constants, m[1])
	}
	source = regexp.MustCompile(`(?m)^#(?:.*\\\n)*.*$`).ReplaceAllString(source, "")
	comment, text, depth := "", "", 0
	for source != "" {
		if strings.HasPrefix(source, "/*") {
			at := commentPattern.FindStringIndex(source)
			if text == "" {
				comment = source[:at[1]]
			}
			if m := libraryPattern.FindStringSubmatch(source[:at[1]]); m != nil {
				d.library = m[1]
			}
			source = source[at[1]:]
			continue
		}
		c := source[0]
		source = source[1:]
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case ';':
			if depth == 0 {
				d.add(t, comment, strings.TrimSpace(text))
				comment, text = "", ""
				continue
			}
		case '\n':
			c = ' '
		}
		if text == "" && c == ' ' {
			continue
		}
		if c != ' ' || text[len(text)-1] != ' ' {
			text += string(c)
		}
	}
	require.Empty(t, strings.TrimSpace(text))
	return d
}

func (d *declarations) add(t testing.TB, comment, text string) {
	if m := functionPattern.FindStringSubmatch(text); m != nil {
		f := function{library: d.library, comment: comment, result: m[1], name: m[2]}
		for _, p := range split(m[3], ',') {
			if p != "void" {
				f.parameters = append(f.parameters, parameterOf(t, p))
			}
		}
		d.functions = append(d.functions, f)
		return
	}
	if m := structurePattern.FindStringSubmatch(text); m != nil {
		require.Equal(t, m[1], m[3])
		s := structure{name: m[1]}
		for _, field := range split(m[2], ';') {
			n := namePattern.FindStringSubmatch(field)
			require.NotNil(t, n, field)
			s.fields, s.names = append(s.fields, field), append(s.names, n[1]+n[2])
		}
		d.structures = append(d.structures, s)
		return
	}
	list, found := strings.CutPrefix(text, "enum {")
	require.True(t, found, "dlbridge.h declares something of another kind: %s", text)
	for _, e := range split(strings.TrimSuffix(list, "}"), ',') {
		name, _, _ := strings.Cut(e, " ")
		d.constants = append(d.constants, name)
	}
}

// split splits a list at the separators outside parentheses.
func split(list string, at rune) (parts []string) {
	depth, part := 0, ""
	for _, c := range list + string(at) {
		switch {
		case c == at && depth == 0:
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
			part = ""
			continue
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
		part += string(c)
	}
	return parts
}

func parameterOf(t testing.TB, text string) parameter {
	if m := regexp.MustCompile(`^(.*)\(\*(\w+)\)(\(.*\))$`).FindStringSubmatch(text); m != nil {
		return parameter{text, m[1] + "(*)" + m[3], m[2]}
	}
	m := parameterPattern.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	return parameter{text, strings.TrimSpace(m[1]), m[2]}
}

func (f *function) String() string {
	texts := []string{"void"}
	for i, p := range f.parameters {
		texts = append(texts[:i], p.text)
	}
	return fmt.Sprintf("%s%s(%s)", f.result, f.name, strings.Join(texts, ", "))
}

// text returns the comment in one line.
func (f *function) text() string {
	return strings.Join(strings.Fields(strings.ReplaceAll(f.comment, "\n *", " ")), " ")
}

// The headers are read in terminals and beside code: no line has more than 100 columns.
func TestTheHeadersHaveAtMost100Columns(t *testing.T) {
	for _, name := range []string{"dlbridge.h", "dlbridge.hpp", "dlpack/dlpack.h"} {
		for i, line := range strings.Split(string(read(t, filepath.Join(headers, name))), "\n") {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 100, "%s:%d: %s", name, i+1, line)
		}
	}
}

// The index at the top of the header has every function once, each with a few words, and nothing else.
func TestTheIndexHasEveryFunction(t *testing.T) {
	_, index, found := strings.Cut(include.Header, "\n * The functions by topic:\n *\n")
	require.True(t, found)
	index, _, found = strings.Cut(index, "\n *\n")
	require.True(t, found)
	topic, entry := regexp.MustCompile(`^ \*   [A-Z][^_]*$`), regexp.MustCompile(`^ \*     (dlb_\w+) +(\w.*)$`)
	var listed, declared []string
	for _, line := range strings.Split(index, "\n") {
		if m := entry.FindStringSubmatch(line); m != nil {
			listed = append(listed, m[1])
			continue
		}
		assert.Regexp(t, topic, line)
	}
	for _, f := range header(t).functions {
		declared = append(declared, f.name)
	}
	assert.ElementsMatch(t, declared, listed)
}

// The program at the top of the header runs unchanged, in C and C++, and is the first example in C.
func TestTheProgramInTheHeaderRuns(t *testing.T) {
	head, _, found := strings.Cut(include.Header, "\n *\n * A producer owns memory")
	require.True(t, found)
	_, head, found = strings.Cut(head, "\n *\n")
	require.True(t, found)
	lines := strings.Split(head, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(line, " *"), "   ")
	}
	text := strings.Join(lines, "\n") + "\n"
	assert.Equal(t, string(read(t, "../../examples/c/first.c")), text)
	for _, language := range [][]string{{"cc", "c", "-std=c99"}, {"c++", "c++", "-std=c++11"}} {
		program := filepath.Join(t.TempDir(), "first")
		flags := []string{language[2], "-Wall", "-Wextra", "-Werror", "-I" + headers,
			"-x", language[1], "../../examples/c/first.c", "-x", "none", "-o", program}
		run(t, nil, nil, language[0], append(flags, libraryFlags(t)...)...)
		assert.Equal(t, "2 dimensions, last element 42\n", run(t, sanitized, nil, program))
	}
}

// The function in the comment of dlb_message_encode compiles, and does what it says.
func TestTheExampleOfEncodeRuns(t *testing.T) {
	const begin, end = " *   // Encodes a tensor as", "\n *   }\n"
	_, text, found := strings.Cut(include.Header, begin)
	require.True(t, found)
	text, _, found = strings.Cut(text, end)
	require.True(t, found)
	text = strings.ReplaceAll(begin+text+end, " *   ", "")
	file := filepath.Join(t.TempDir(), "encode.c")
	require.NoError(t, os.WriteFile(file, []byte("#include <dlbridge.h>\n#include <stdio.h>\nstatic "+text[strings.Index(text, "int32_t"):]+`
int main(void) {
  DLManagedTensorVersioned *x;
  dlb_frame frame;
  dlb_message *message;
  dlb_bytes metadata;
  size_t at;
  dlb_error error;
  if (dlb_tensor_alloc(&x, (DLDataType){kDLFloat, 32, 1}, 0, NULL, &error) != DLB_OK || encode(&frame, x, &error) != DLB_OK ||
      dlb_message_decode_packed(&message, &frame, 0, &error) != DLB_OK || dlb_message_find(&at, message, "x", &error) != DLB_OK ||
      dlb_message_tensor_metadata(&metadata, message, at, &error) != DLB_OK)
    return puts(error.message), 1;
  printf("%.*s", (int)metadata.size, metadata.data);
  dlb_message_free(message);
  return encode(&frame, NULL, NULL) == DLB_ERROR_NULL ? 0 : 2;
}
`), 0o600))
	program := filepath.Join(t.TempDir(), "encode")
	flags := []string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-I" + headers, file, "-o", program}
	run(t, nil, nil, "cc", append(flags, libraryFlags(t)...)...)
	assert.Equal(t, `{"name":"x"}`, run(t, sanitized, nil, program))
}

// block returns the lines of a program in a comment of the header. The first of them begins with begin.
func block(t testing.TB, begin string) string {
	_, rest, found := strings.Cut(include.Header, "\n *   "+begin)
	require.True(t, found, begin)
	text, _, found := strings.Cut(begin+rest, "\n *\n")
	require.True(t, found, begin)
	return strings.ReplaceAll(text, "\n *   ", "\n") + "\n"
}

// The lines of programs in the comments of the header compile, in C and C++.
func TestTheLinesInTheHeaderCompile(t *testing.T) {
	text := fmt.Sprintf(`#include <dlbridge.h>
#include <stdio.h>
int32_t normalise(DLManagedTensorVersioned *floats, const DLManagedTensorVersioned *images, const double *mean, const double *std) {
  dlb_error error;
  int32_t code;
%s  return code;
}
int32_t names(dlb_error *error) {
%s  return DLB_OK;
}
`, block(t, "  double scale[3], shift[3];"), block(t, "dlb_file *file;"))
	file := filepath.Join(t.TempDir(), "lines.c")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for _, language := range [][]string{{"cc", "c", "-std=c99"}, {"c++", "c++", "-std=c++11"}} {
		run(t, nil, nil, language[0], language[2], "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o", os.DevNull, "-I"+headers, "-x", language[1], file)
	}
}

// The comment of each function has the four labels Ownership, Lifetime, Threads and On error, or names a function whose
// comment has them.
func TestEveryFunctionHasTheFourLabels(t *testing.T) {
	d := header(t)
	labels := regexp.MustCompile(`(?s)Ownership[:,].*\bLifetime[:,].*\bThreads[:,].*\bOn error: \S`)
	for _, f := range d.functions {
		text := f.text()
		assert.Regexp(t, labels, text, f.name)
		assert.True(t, strings.HasSuffix(text, ". */"), "%s: %s", f.name, text)
		for _, m := range regexp.MustCompile(`: as (dlb_\w+)`).FindAllStringSubmatch(text, -1) {
			assert.True(t, slices.ContainsFunc(d.functions, func(g function) bool {
				return g.name == m[1] && labels.MatchString(g.text())
			}), "%s: no %s says it", f.name, m[1])
		}
	}
}

// Each function that returns a code is marked, and the compiler warns if a call ignores the code.
func TestNoCodeIsIgnored(t *testing.T) {
	marked := "DLB_NODISCARD\nDLB_API "
	for _, f := range header(t).functions {
		fails := slices.ContainsFunc(f.parameters, func(p parameter) bool { return p.kind == "dlb_error *" })
		assert.Equal(t, fails, strings.Contains(include.Header, marked+f.result+f.name+"("), f.name)
	}
	twice := "#include <dlbridge.h>\n" + block(t, "int32_t twice(")
	ignored := strings.Replace(twice, "DLB_TRY(", "(", 1)
	require.NotEqual(t, twice, ignored)
	file := filepath.Join(t.TempDir(), "twice.c")
	for _, language := range [][]string{{"cc", "c", "-std=c99"}, {"c++", "c++", "-std=c++11"}, {"c++", "c++", "-std=c++17"}} {
		compiler := []string{language[2], "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o", os.DevNull, "-I" + headers, "-x", language[1], file}
		require.NoError(t, os.WriteFile(file, []byte(twice), 0o600))
		run(t, nil, nil, language[0], compiler...)
		require.NoError(t, os.WriteFile(file, []byte(ignored), 0o600))
		said, err := exec.Command(language[0], compiler...).CombinedOutput()
		require.Error(t, err, language)
		assert.Regexp(t, `(unused-result|nodiscard)`, string(said), language)
	}
}

var updateABI = flag.Bool("update-abi", false, "write the record of the ABI: make abi-record")

// abi returns the binary interface of the header as a C compiler sees it: a line for each function, structure, field and
// constant. Reserved words are left out, and so is the size of structures that grow at their end. flags has the folder of
// another header.
func (d *declarations) abi(t testing.TB, flags ...string) []string {
	var c strings.Builder
	c.WriteString("#include <dlbridge.h>\n#include <stdio.h>\nint main(void) {\n")
	for _, f := range d.functions {
		fmt.Fprintf(&c, "puts(%q);\n", f.String())
	}
	for _, s := range d.structures {
		if s.fields == nil {
			continue
		}
		if growths[s.name] != sized {
			fmt.Fprintf(&c, "printf(\"struct %s of %%zu\\n\", sizeof(%s));\n", s.name, s.name)
		}
		for i, field := range s.fields {
			if s.names[i] != "reserved" {
				fmt.Fprintf(&c, "printf(\"struct %s: %s at %%zu\\n\", offsetof(%s, %s));\n", s.name, field, s.name, s.names[i])
			}
		}
	}
	for _, name := range d.constants {
		if !strings.HasPrefix(name, "DLB_VERSION_") {
			fmt.Fprintf(&c, "printf(\"%s = %%lld\\n\", (long long)%s);\n", name, name)
		}
	}
	c.WriteString("}\n")
	dir := t.TempDir()
	file, program := filepath.Join(dir, "abi.c"), filepath.Join(dir, "abi")
	require.NoError(t, os.WriteFile(file, []byte(c.String()), 0o600))
	run(t, nil, nil, "cc", slices.Concat(flags, c11, []string{file, "-o", program})...)
	return strings.Split(strings.TrimSuffix(run(t, nil, nil, program), "\n"), "\n")
}

// The record of the binary interface: abi.txt has its version and lines, and recorded/dlbridge.h is the header with which
// recorded/program.c was built.
const (
	abiRecord      = "testdata/abi.txt"
	recordedHeader = "testdata/recorded/dlbridge.h"
)

// abiFault compares the interface of a header with the interface of an earlier header. It returns a text that names the
// fault and the way out, or "" if there is no fault. A program that was built with one version works with all later versions of the same major number. The record of a
// version may change until the version is released.
func abiFault(before, now [3]int, recorded, abi []string, released, record bool) string {
	without := func(a, b []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) }), "\n")
	}
	gone, more := without(recorded, abi), without(abi, recorded)
	old := fmt.Sprintf("%d.%d.%d", before[0], before[1], before[2])
	switch {
	case slices.Compare(now[:], before[:]) < 0:
		return fmt.Sprintf("DLB_VERSION_* in dlbridge.h is lower than the recorded version %s: raise it", old)
	case gone != "" && now[0] == before[0] && released:
		return fmt.Sprintf("this was removed or changed, so that programs that were built with version %s no longer work; restore it, "+
			"or raise DLB_VERSION_MAJOR and run make abi-record:\n%s", old, gone)
	case more != "" && slices.Equal(now[:2], before[:2]) && released:
		return fmt.Sprintf("this is new since version %s; raise DLB_VERSION_MINOR and run make abi-record:\n%s", old, more)
	case record:
		return ""
	case gone != "":
		return fmt.Sprintf("this was removed or changed; restore it, or run make abi-record, because version %s is not released or "+
			"DLB_VERSION_MAJOR was raised:\n%s", old, gone)
	case more != "":
		return "this is new; run make abi-record:\n" + more
	}
	return ""
}

// readABI returns the version and the lines of abi.txt.
func readABI(t testing.TB) (version [3]int, lines []string) {
	first, rest, _ := strings.Cut(string(read(t, abiRecord)), "\n")
	must.Do(fmt.Sscanf(first, "version %d.%d.%d", &version[0], &version[1], &version[2]))(t)
	return version, strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
}

// isReleased reports whether the changelog has a heading for a version.
func isReleased(t testing.TB, version [3]int) bool {
	return strings.Contains(string(read(t, "../../CHANGELOG.md")), fmt.Sprintf("\n## [%d.%d.%d]", version[0], version[1], version[2]))
}

func TestABIChangesOnlyWithTheVersion(t *testing.T) {
	d := header(t)
	abi := d.abi(t)
	before, recorded := readABI(t)
	var now [3]int
	for i, part := range []string{"MAJOR", "MINOR", "PATCH"} {
		must.Do(fmt.Sscan(version(t, part), &now[i]))(t)
	}
	if fault := abiFault(before, now, recorded, abi, isReleased(t, before), *updateABI); fault != "" {
		t.Fatal(fault)
	}
	text := fmt.Sprintf("version %d.%d.%d\n%s\n", now[0], now[1], now[2], strings.Join(abi, "\n"))
	if *updateABI {
		require.NoError(t, os.WriteFile(abiRecord, []byte(text), 0o600))
		return
	}
	assert.Equal(t, text, string(read(t, abiRecord)), "the version was raised, or the order has changed: run make abi-record")
}

// A program that was built with the recorded header runs with the current library. The recorded header does not change
// when functions are added. It is replaced when it is no longer compatible; abiFault allows that only with a new major
// version.
func TestProgramsOfTheRecordedHeaderRun(t *testing.T) {
	t.Parallel()
	source := string(read(t, recordedHeader))
	d, now := parse(t, source), header(t)
	recorded, abi := d.abi(t, "-I"+filepath.Dir(recordedHeader)), now.abi(t)
	if slices.ContainsFunc(recorded, func(line string) bool { return !slices.Contains(abi, line) }) {
		if *updateABI {
			require.NoError(t, os.WriteFile(recordedHeader, []byte(include.Header), 0o600))
			t.Log("the recorded header was replaced; program.c beside it has to be adapted if it does not compile")
			return
		}
		v, _ := readABI(t)
		t.Fatal(abiFault(v, v, recorded, abi, isReleased(t, v), false))
	}
	dir := t.TempDir()
	var table strings.Builder
	table.WriteString("typedef void (*function)(void);\nstatic const function functions[] = {\n")
	for _, f := range d.functions {
		fmt.Fprintf(&table, "  (function)%s,\n", f.name)
	}
	table.WriteString("};\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "recorded.h"), []byte(table.String()), 0o600))
	flags := slices.Concat([]string{"-I" + filepath.Dir(recordedHeader), "-I" + dir}, c11, []string{"-Wno-cast-function-type"}, libraryFlags(t))
	program := compile(t, "cc", "recorded/program.c", flags...)
	out := run(t, sanitized, nil, program)
	assert.Equal(t, fmt.Sprintf("%s.%s.%s\n", version(t, "MAJOR"), version(t, "MINOR"), version(t, "PATCH")), out)
}

func TestABIFaultsNameTheWayOut(t *testing.T) {
	recorded := []string{"int32_t f(void)", "int32_t g(int32_t x)", "struct s of 16"}
	v := func(major, minor int) [3]int { return [3]int{major, minor, 0} }
	for _, c := range []struct {
		name             string
		now              [3]int
		abi              []string
		released, record bool
		fault            string
	}{
		{"nothing changes", v(1, 1), recorded, true, false, ""},
		{"removed symbol", v(1, 1), recorded[1:], true, true, "removed or changed.*raise DLB_VERSION_MAJOR.*int32_t f"},
		{"changed signature", v(1, 2), []string{recorded[0], "int32_t g(int64_t x)", recorded[2]}, true, true, `DLB_VERSION_MAJOR.*g\(int32_t x\)`},
		{"changed structure", v(1, 2), []string{recorded[0], recorded[1], "struct s of 24"}, true, true, "DLB_VERSION_MAJOR.*struct s of 16"},
		{"removed with a new major version", v(2, 0), recorded[1:], true, false, "make abi-record.*int32_t f"},
		{"removed with a new major version, recorded", v(2, 0), recorded[1:], true, true, ""},
		{"added", v(1, 1), append(slices.Clone(recorded), "X = 1"), true, true, "raise DLB_VERSION_MINOR.*X = 1"},
		{"added with a new minor version", v(1, 2), append(slices.Clone(recorded), "X = 1"), true, false, "make abi-record.*X = 1"},
		{"added with a new minor version, recorded", v(1, 2), append(slices.Clone(recorded), "X = 1"), true, true, ""},
		{"removed before the release", v(1, 1), recorded[1:], false, false, "make abi-record.*int32_t f"},
		{"added before the release, recorded", v(1, 1), append(slices.Clone(recorded), "X = 1"), false, true, ""},
		{"lower version", v(1, 0), recorded, true, true, "lower than the recorded version 1.1.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fault := abiFault(v(1, 1), c.now, recorded, c.abi, c.released, c.record)
			if c.fault == "" {
				assert.Empty(t, fault)
				return
			}
			assert.Regexp(t, "(?s)"+c.fault, fault)
		})
	}
}

// calls writes, for each function of the header, a C function that calls it with arguments made by hostile.c.
func (d *declarations) calls() string {
	var c, table strings.Builder
	for _, f := range d.functions {
		status, keep, code := 0, "(void)", "DLB_OK"
		if slices.ContainsFunc(f.parameters, func(p parameter) bool { return p.kind == "dlb_error *" }) {
			status, keep, code = 1, "int32_t got = ", "got"
		}
		fmt.Fprintf(&c, "static int32_t call_%s(void) {\n  begin(%q);\n", f.name, f.name)
		var names, quoted, pointers []string
		for _, p := range f.parameters {
			fmt.Fprintf(&c, "  parameter = %q;\n  %s = %s();\n", p.name, p.text, p.maker())
			names, quoted = append(names, p.name), append(quoted, strconv.Quote(p.name))
			pointers = append(pointers, fmt.Sprint(strings.Count(p.kind, "*")))
		}
		fmt.Fprintf(&c, "  before();\n  %s%s(%s);\n  after();\n  return finish(%s, %d);\n}\n\n",
			keep, f.name, strings.Join(names, ", "), code, status)
		fmt.Fprintf(&table, "    {%q, call_%s, %d, %d, {%s}, {%s}},\n", f.name, f.name, status, len(names),
			strings.Join(append(quoted, "NULL"), ", "), strings.Join(append(pointers, "0"), ", "))
	}
	return c.String() + "static const struct {\n  const char *name;\n  int32_t (*call)(void);\n  int is_status, parameters;\n" +
		"  const char *names[9];\n  int pointers[9];\n} calls[] = {\n" + table.String() + "};\n"
}

// maker returns the function of hostile.c that makes arguments of a kind.
func (p *parameter) maker() string {
	if strings.Contains(p.kind, "(") {
		return "make_void_function"
	}
	return "make_" + strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(p.kind, " *", "_*"), "*", "p"), " ", "_")
}

// compileHostile builds hostile.c with a call of each function of the header.
func compileHostile(t *testing.T, flags ...string) string {
	dir := t.TempDir()
	d := header(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "calls.h"), []byte(d.calls()), 0o600))
	return compile(t, "cc", "hostile.c", append(append(slices.Clone(c11), "-I"+dir), flags...)...)
}

// No argument ends the process, is taken over by mistake, or causes a leak. With DLBRIDGE_STRESS the test
// takes minutes.
func TestHostileCalls(t *testing.T) {
	t.Parallel()
	rounds := "20000"
	if os.Getenv("DLBRIDGE_STRESS") != "" {
		rounds = "5000000"
	}
	program := compileHostile(t, libraryFlags(t)...)
	for seed := range 8 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			// Some flags that it sets let a tensor reach into the memory that aligns it, which is there without the check.
			run(t, append([]string{"DLBRIDGE_CHECK=0"}, sanitized...), nil, program, rounds, fmt.Sprint(2*seed+1))
		})
	}
}
