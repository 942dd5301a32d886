//go:build cgo

package capi_test

import (
	"debug/elf"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// The program calls every function of the header that takes a tensor.
func TestFunctionsDoNotCareWhereMemoryLies(t *testing.T) {
	program := compile(t, "cc", "placement.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	for _, environment := range []string{"GOGC=100", "GODEBUG=cgocheck=1,clobberfree=1,invalidptr=1"} {
		run(t, append(slices.Clone(sanitized), environment), nil, program)
	}
}

var (
	// tensorKinds are the types of the parameters of functions that take a tensor.
	tensorKinds = []string{"const DLTensor *", "DLManagedTensorVersioned *", "const DLManagedTensorVersioned *", "DLManagedTensor *",
		"const dlb_message_tensor *", "const dlb_value *", "const dlb_file_tensor *"}
	// notPlaced matches functions that take the description of a tensor without memory.
	notPlaced = regexp.MustCompile(`^dlb_shm_attach$`)
	// notInCxx are functions that dlbridge.hpp does not call, and why.
	notInCxx = map[string]string{
		"dlb_error_name":     "an exception has the text",
		"dlb_frames_release": "a frame releases itself",
		"dlb_version":        "it is for programs that load the library themselves",
	}
)

func TestEveryFunctionIsInAllItsPlaces(t *testing.T) {
	t.Parallel()
	_, lines := readABI(t)
	recorded := map[string]bool{}
	for _, line := range lines {
		if m := regexp.MustCompile(`\b(dlb_\w+)\(`).FindStringSubmatch(line); m != nil && !strings.HasPrefix(line, "struct ") {
			recorded[m[1]] = true
		}
	}
	placed := calledBy(t, compile(t, "cc", "placement.c", append(slices.Clone(c11), "-c")...))
	hostile := calledBy(t, compileHostile(t, "-c"))
	tested := calledBy(t, compile(t, "c++", "../../../.ci/cpp/dlbridge.cpp", "-std=c++17", "-I"+headers, "-c"))
	d := header(t)
	require.Greater(t, len(d.functions), 50)
	for _, f := range d.functions {
		assert.True(t, recorded[f.name], "%s is not in testdata/abi.txt: run make abi-record", f.name)
		assert.True(t, hostile[f.name], "hostile.c does not call %s: it calls what the header declares, with a maker for each kind of parameter", f.name)
		if slices.ContainsFunc(f.parameters, func(p parameter) bool { return slices.Contains(tensorKinds, p.kind) }) {
			assert.Equal(t, !notPlaced.MatchString(f.name), placed[f.name], "testdata/placement.c must call %s with memory in every place, unless "+
				"notPlaced has it", f.name)
		}
		assert.Equal(t, notInCxx[f.name] == "", tested[f.name], "a member of include/dlbridge.hpp must call %s, and .ci/cpp/dlbridge.cpp that member, unless "+
			"notInCxx says why not", f.name)
	}
	for name := range recorded {
		assert.True(t, slices.ContainsFunc(d.functions, func(f function) bool { return f.name == name }), "%s is recorded, and not in dlbridge.h", name)
	}
}

// calledBy returns the functions of dlbridge.h that an object file refers to. Macros that make their names hide nothing from it.
func calledBy(t *testing.T, object string) map[string]bool {
	f, err := elf.Open(object)
	require.NoError(t, err, filepath.Base(object))
	defer f.Close()
	symbols := must.Do(f.Symbols())(t)
	called := map[string]bool{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF && strings.HasPrefix(s.Name, "dlb_") {
			called[s.Name] = true
		}
	}
	require.NotEmpty(t, called)
	return called
}
