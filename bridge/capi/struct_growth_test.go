//go:build cgo

package capi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/include"
)

// growth says how a structure of dlbridge.h grows in a later version of the same major number.
type growth int

const (
	never    growth = iota // does not grow
	reserved               // a field replaces a reserved word; the size does not change
	sized                  // grows at its end; the program passes its size to the function
)

// growths has an entry for each structure that the header defines. See "Structures" in the header for the reasons.
var growths = map[string]growth{
	"dlb_error":          never,
	"dlb_bytes":          never,
	"dlb_header":         never,
	"dlb_index":          never,
	"dlb_allocator":      never,
	"dlb_shm_handle":     never,
	"dlb_frame":          reserved,
	"dlb_message_tensor": reserved,
	"dlb_message_fields": reserved,
	"dlb_elements":       reserved,
	"dlb_value":          reserved,
	"dlb_file_options":   reserved,
	"dlb_file_entry":     reserved,
	"dlb_file_tensor":    reserved,
	"dlb_file_fields":    reserved,
	"dlb_counters":       sized,
}

var reservedPattern = regexp.MustCompile(`uint64_t reserved\[(\d)\];`)

// grown returns the header with an additional field, grown, in each structure that can grow.
func grown(t testing.TB) string {
	source := include.Header
	for name, how := range growths {
		if how == never {
			continue
		}
		begin, end := "typedef struct "+name+" {", "} "+name+";"
		before, rest, found := strings.Cut(source, begin)
		require.True(t, found, name)
		fields, after, found := strings.Cut(rest, end)
		require.True(t, found, name)
		if m := reservedPattern.FindStringSubmatch(fields); m != nil {
			fewer := string(m[1][0] - 1)
			fields = strings.Replace(fields, m[0], "uint64_t grown; uint64_t reserved["+fewer+"];", 1)
		} else {
			fields += "  uint64_t grown;\n"
		}
		source = before + begin + fields + end + after
	}
	return source
}

// writeGrown writes the grown header into a folder, which the compiler searches first.
func writeGrown(t testing.TB, dir string) []string {
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dlbridge.h"), []byte(grown(t)), 0o600))
	return []string{"-I" + dir, "-DGROWN"}
}

// A program and a library that were compiled with different headers of one major version work together. Either may be
// newer.
func TestStructuresGrowWithoutBreakingPrograms(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	dir := filepath.Join(scratch, "grown")
	newer := writeGrown(t, dir)
	command := exec.Command("sh", "../libdlbridge/build.sh", dir)
	command.Env = append(os.Environ(), "CFLAGS="+newer[0], "CGO_CFLAGS=-g -O2 "+newer[0])
	require.NoError(t, build(command))
	today := must.Do(library())(t)
	for _, test := range []struct {
		name           string
		program        []string
		library, knows string
	}{
		{"a newer library", nil, dir, "1"},
		{"a newer program", newer, today, "0"},
		{"both newer", newer, dir, "1"},
		{"both of today", nil, today, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			flags := slices.Concat(test.program, c11, linked(test.library, "dlbridge"))
			run(t, nil, nil, compile(t, "cc", "struct_growth.c", flags...), test.knows)
		})
	}
}

// A structure that grows by its rule requires a new minor version, like a new function, but no new major version.
func TestStructuresThatGrowOnlyAddToTheABI(t *testing.T) {
	d, later := header(t), parse(t, grown(t))
	before, after := d.abi(t), later.abi(t, writeGrown(t, t.TempDir())...)
	assert.Subset(t, after, before)
	assert.Len(t, after, len(before)+strings.Count(grown(t), " grown;"))
}

// The header states for each structure how it grows, or that it never grows.
func TestEveryStructureHasARuleOfGrowth(t *testing.T) {
	_, rule, found := strings.Cut(include.Header, "\n * Structures. ")
	require.True(t, found)
	rule, _, found = strings.Cut(rule, "\n * The structures of DLPack ")
	require.True(t, found)
	d := header(t)
	for _, s := range d.structures {
		if s.fields == nil {
			continue // opaque: programs do not allocate it
		}
		how, decided := growths[s.name]
		assert.True(t, decided, "%s: how does it grow?", s.name)
		assert.Regexp(t, `\b`+s.name+`\b`, rule)
		assert.Equal(t, how == reserved, s.names[len(s.names)-1] == "reserved", s.name)
		if how != sized {
			continue
		}
		for _, f := range d.functions {
			for i, p := range f.parameters {
				if p.kind == s.name+" *" {
					require.Greater(t, len(f.parameters), i+1, f.name)
					assert.Equal(t, "size_t size", f.parameters[i+1].text, f.name)
				}
			}
		}
	}
}
