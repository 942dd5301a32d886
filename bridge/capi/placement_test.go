package capi_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program calls every function of the header that takes a tensor and reads more than its description.
func TestFunctionsDoNotCareWhereMemoryLies(t *testing.T) {
	source, err := os.ReadFile("testdata/placement.c")
	require.NoError(t, err)
	tensors := []string{"const DLTensor *", "DLManagedTensorVersioned *", "const DLManagedTensorVersioned *", "DLManagedTensor *", "const dlb_message_tensor *", "const dlb_value *"}
	descriptionOnly := []string{"dlb_decthings_check", "dlb_shm_attach"}
	count := 0
	for _, f := range header(t).functions {
		if slices.Contains(descriptionOnly, f.name) || !slices.ContainsFunc(f.parameters, func(p parameter) bool { return slices.Contains(tensors, p.kind) }) {
			continue
		}
		count++
		assert.Contains(t, string(source), f.name+"(")
	}
	assert.Greater(t, count, 5)
	program := compile(t, "cc", "placement.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	for _, environment := range []string{"GOGC=100", "GODEBUG=cgocheck=1,clobberfree=1,invalidptr=1"} {
		run(t, append(slices.Clone(sanitized), environment), nil, program)
	}
}
