package dlpack_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
)

func TestFlagsAreTheBitsOfTheStandard(t *testing.T) {
	assert.Equal(t, []dlpack.Flags{1, 2, 4}, []dlpack.Flags{dlpack.ReadOnly, dlpack.IsCopied, dlpack.SubbytePadded})
}

func TestFlagsHaveNames(t *testing.T) {
	for want, flags := range map[string]dlpack.Flags{
		"0":                               0,
		"ReadOnly":                        dlpack.ReadOnly,
		"IsCopied|SubbytePadded":          dlpack.IsCopied | dlpack.SubbytePadded,
		"ReadOnly|IsCopied|SubbytePadded": 7,
		"ReadOnly|0x18":                   dlpack.ReadOnly | 0x18,
		"0x8000000000000000":              1 << 63,
	} {
		assert.Equal(t, want, fmt.Sprint(flags))
	}
}
