package dlpack_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

var (
	testNames   = regexp.MustCompile(`(?m)^(?:func ((?:Test|Fuzz)\w+)\(|(?:async )?def (test_\w+)\()`)
	makeTargets = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	backquoted  = regexp.MustCompile("`([^`]+)`")
)

// repository has the contents of the repository that the page of guarantees names.
type repository struct {
	tests   map[string]bool
	targets map[string]bool
	bench   string
}

func readRepository(t *testing.T, root string) *repository {
	r := &repository{tests: map[string]bool{}, targets: map[string]bool{}}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != root && (name == "build" || name == "venv" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".py"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range testNames.FindAllStringSubmatch(string(text), -1) {
			r.tests[match[1]+match[2]] = true
		}
		return nil
	}))
	makefile := must.Do(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	for _, match := range makeTargets.FindAllStringSubmatch(string(makefile), -1) {
		r.targets[match[1]] = true
	}
	bench := must.Do(os.ReadFile(filepath.Join(root, "examples", "bench", "README.md")))(t)
	r.bench = strings.NewReplacer("*", "", "`", "").Replace(string(bench))
	return r
}

// promises returns the blocks of a page of guarantees, each as one line.
func promises(page string) []string {
	_, page, _ = strings.Cut(page, "\n- ")
	blocks := strings.Split(page, "\n- ")
	for i, block := range blocks {
		block, _, _ = strings.Cut(block, "\n\n#")
		blocks[i] = strings.Join(strings.Fields(block), " ")
	}
	return blocks
}

// faults returns the faults of a page of guarantees.
func (r *repository) faults(page string) (faults []string) {
	for line := range strings.Lines(page) {
		if len([]rune(line)) > 120+len("\n") {
			faults = append(faults, "longer than 120 columns: "+line)
		}
	}
	known := map[string]bool{}
	for _, block := range promises(page) {
		promise, rest, _ := strings.Cut(block, " - Held by: ")
		if known[promise] {
			faults = append(faults, promise+" It is there twice")
		}
		known[promise] = true
		list, _, _ := strings.Cut(rest, " - Reported: ")
		list = strings.TrimSuffix(list, ".")
		held := 0
		for _, part := range strings.Split(list, ", ") {
			if bench, ok := strings.CutPrefix(part, "bench: "); ok {
				held++
				if !strings.Contains(r.bench, "| "+bench+" |") {
					faults = append(faults, promise+" The bench has no row "+bench)
				}
			} else if reason, ok := strings.CutPrefix(part, "open: "); ok && reason != "" {
				held++
			}
		}
		for _, name := range backquoted.FindAllStringSubmatch(list, -1) {
			held++
			if target, ok := strings.CutPrefix(name[1], "make "); ok {
				if !r.targets[target] {
					faults = append(faults, promise+" The Makefile has no target "+target)
				}
			} else if !r.tests[name[1]] {
				faults = append(faults, promise+" There is no test "+name[1])
			}
		}
		if held == 0 {
			faults = append(faults, promise+" It has no test")
		}
	}
	return faults
}

func TestGuarantees(t *testing.T) {
	page := must.Do(os.ReadFile("GUARANTEES.md"))(t)
	r := readRepository(t, "..")
	require.Greater(t, len(r.tests), 500)
	require.Greater(t, len(promises(string(page))), 80)
	assert.Empty(t, r.faults(string(page)), "dlpack/GUARANTEES.md and the tests differ")
}

func TestGuaranteesThatNoTestHoldsAreFound(t *testing.T) {
	r := &repository{
		tests:   map[string]bool{"TestFirst": true, "test_second": true},
		targets: map[string]bool{"asan": true},
		bench:   "| fast | 1.0 |",
	}
	sound := "# Page\n\nIt has a head.\n\n## One\n\n- A.\n  - Held by: `TestFirst`.\n\n" +
		"- B\n  goes on.\n  - Held by: `test_second`,\n    bench: fast.\n  - Reported: somewhere.\n\n" +
		"## Two\n\n- C.\n  - Held by: `make asan`.\n\n- D.\n  - Held by: open: nobody could.\n"
	assert.Empty(t, r.faults(sound))
	assert.Len(t, promises(sound), 4)
	for _, test := range []struct{ from, to, want string }{
		{"  - Held by: `TestFirst`.\n", "", "A. It has no test"},
		{"TestFirst", "TestOther", "A. There is no test TestOther"},
		{"make asan", "make nothing", "C. The Makefile has no target nothing"},
		{"open: nobody could", "open: ", "D. It has no test"},
		{"bench: fast", "bench: slow", "B goes on. The bench has no row slow"},
		{"- C.", "- A.", "A. It is there twice"},
		{"head.", "head" + strings.Repeat(".", 120), "longer than 120 columns: It has a head" + strings.Repeat(".", 120) + "\n"},
	} {
		assert.Equal(t, []string{test.want}, r.faults(strings.Replace(sound, test.from, test.to, 1)), test.want)
	}
}

// A release must never run the garbage collector, because a destructor of another runtime may call the release. Only
// the background goroutine that counts foreign bytes calls runtime.GC.
func TestOnlyABackgroundGoroutineRunsTheCollector(t *testing.T) {
	var found []string
	for _, folder := range []string{"../bridge", "../dlpack", "../include", "../tens"} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "runtime.GC()") || strings.Contains(string(text), "debug.FreeOSMemory()") {
				found = append(found, filepath.ToSlash(path))
				assert.Regexp(t, `background\.Go\(func\(\) \{\s+for range \w+\.due \{\s+runtime\.GC\(\)\s+\}\s+\}\)`, string(text), path)
				assert.Equal(t, 1, strings.Count(string(text), "runtime.GC()"), path)
			}
			return err
		}))
	}
	assert.Equal(t, []string{"../dlpack/internal/core/counters.go"}, found)
}
