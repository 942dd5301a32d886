//go:build cgo

package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
)

func TestVersionPrintsAsTheStandardIsCalled(t *testing.T) {
	assert.Equal(t, "1.3", dlpack.Current.String())
	assert.Equal(t, "0.4294967295", dlpack.Version{Minor: 1<<32 - 1}.String())
}
