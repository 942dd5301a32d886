package dlpack_test

import (
	"io/fs"
	"maps"
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
	nameNumbers = regexp.MustCompile(`^(?:Test|Fuzz)G([0-9]+)|_g([0-9]{2,})(?:_|$)`)
	bareNumbers = regexp.MustCompile(`\bG([0-9]{1,3})\b`)
	makeTargets = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	rows        = regexp.MustCompile(`(?m)^\| ([0-9]+) \| (.*) \| (.*) \| (.*) \|$`)
	backquoted  = regexp.MustCompile("`([^`]+)`")
)

// repository is what the table of guarantees is compared with.
type repository struct {
	tests   map[string]bool
	numbers map[string]string // a guarantee's number, as written without leading zeros, and a place that refers to it
	targets map[string]bool
	bench   string
}

func readRepository(t *testing.T, root string) *repository {
	r := &repository{tests: map[string]bool{}, numbers: map[string]string{}, targets: map[string]bool{}}
	refer := func(number, place string) { r.numbers[strings.TrimLeft(number, "0")] = place }
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
		if !slices.Contains([]string{".go", ".py", ".c", ".h", ".sh"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range testNames.FindAllStringSubmatch(string(text), -1) {
			name := match[1] + match[2]
			r.tests[name] = true
			for _, number := range nameNumbers.FindAllStringSubmatch(name, -1) {
				refer(number[1]+number[2], path)
			}
		}
		for _, number := range bareNumbers.FindAllStringSubmatch(string(text), -1) {
			refer(number[1], path)
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

// faults returns what is wrong with a table of guarantees.
func (r *repository) faults(table string) (faults []string) {
	known := map[string]bool{}
	for _, row := range rows.FindAllStringSubmatch(table, -1) {
		number, held := row[1], 0
		if known[number] {
			faults = append(faults, "row "+number+" is there twice")
		}
		known[number] = true
		for _, part := range strings.Split(row[3], ", ") {
			if bench, ok := strings.CutPrefix(part, "bench: "); ok {
				held++
				if !strings.Contains(r.bench, "| "+bench+" |") {
					faults = append(faults, "row "+number+": the bench has no row "+bench)
				}
			} else if reason, ok := strings.CutPrefix(part, "open: "); ok && reason != "" {
				held++
			}
		}
		for _, name := range backquoted.FindAllStringSubmatch(row[3], -1) {
			held++
			if target, ok := strings.CutPrefix(name[1], "make "); ok {
				if !r.targets[target] {
					faults = append(faults, "row "+number+": the Makefile has no target "+target)
				}
			} else if !r.tests[name[1]] {
				faults = append(faults, "row "+number+": there is no test "+name[1])
			}
		}
		if held == 0 {
			faults = append(faults, "row "+number+" has no test")
		}
	}
	for _, number := range slices.Sorted(maps.Keys(r.numbers)) {
		if !known[number] {
			faults = append(faults, r.numbers[number]+" refers to G"+number+", which has no row")
		}
	}
	return faults
}

func TestGuarantees(t *testing.T) {
	table := must.Do(os.ReadFile("GUARANTEES.md"))(t)
	r := readRepository(t, "..")
	require.Greater(t, len(r.tests), 500)
	require.Greater(t, len(r.numbers), 70)
	require.Greater(t, len(rows.FindAllString(string(table), -1)), 80)
	assert.Empty(t, r.faults(string(table)), "dlpack/GUARANTEES.md and the tests differ")
}

func TestGuaranteesThatNoTestHoldsAreFound(t *testing.T) {
	r := &repository{
		tests:   map[string]bool{"TestG01First": true, "test_g02_second": true},
		numbers: map[string]string{"1": "a_test.go", "2": "b.py", "7": "c.c"},
		targets: map[string]bool{"asan": true},
		bench:   "| fast | 1.0 |",
	}
	sound := "| 1 | x | `TestG01First` | - |\n| 2 | x | `test_g02_second`, bench: fast | - |\n" +
		"| 3 | x | `make asan` | - |\n| 4 | x | open: nobody could | - |\n| 7 | x | bench: fast | - |\n"
	assert.Empty(t, r.faults(sound))
	for _, test := range []struct{ from, to, want string }{
		{"`TestG01First`", "", "row 1 has no test"},
		{"`TestG01First`", "`TestG01Other`", "row 1: there is no test TestG01Other"},
		{"make asan", "make nothing", "row 3: the Makefile has no target nothing"},
		{"open: nobody could", "open: ", "row 4 has no test"},
		{"bench: fast | - |\n| 3", "bench: slow | - |\n| 3", "row 2: the bench has no row slow"},
		{"| 7 |", "| 8 |", "c.c refers to G7, which has no row"},
		{"| 3 |", "| 1 |", "row 1 is there twice"},
	} {
		assert.Equal(t, []string{test.want}, r.faults(strings.Replace(sound, test.from, test.to, 1)), test.want)
	}
}

// A release must never run the collector: it may be called from a destructor of another runtime. The account of foreign
// bytes has it run by a background goroutine; nothing else in the library calls runtime.GC.
func TestG56OnlyABackgroundGoroutineRunsTheCollector(t *testing.T) {
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
