package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
)

func TestFlagsAreTheBitsOfTheStandard(t *testing.T) {
	assert.Equal(t, []dlpack.Flags{1, 2, 4}, []dlpack.Flags{dlpack.ReadOnly, dlpack.IsCopied, dlpack.SubbytePadded})
}
