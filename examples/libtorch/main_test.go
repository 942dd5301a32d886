package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func TestReadmeShowsWhatIsPrinted(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	var printed bytes.Buffer
	require.NoError(t, story(&printed, os.Getenv("LIBTORCH_MODEL")))
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	assert.Contains(t, strings.ReplaceAll(string(readme), "\r", ""), "```\n"+printed.String()+"```\n")
}

func TestMissingModelIsAnError(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	assert.ErrorContains(t, story(&bytes.Buffer{}, "missing.pt"), "aten: load model: libtorch: ")
}
