package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
)

// test_http.py has the requests that are refused for another reason.
func TestTooLittleMemoryIsNoFaultOfTheClient(t *testing.T) {
	assert.Equal(t, http.StatusServiceUnavailable, status(fmt.Errorf("tensorflow: %w", dlpack.ErrMemory)))
}
