package onnxruntime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func TestThePackageCommentBeginsWithAProgram(t *testing.T) {
	const folder = "bridge/onnxruntime"
	assert.Empty(t, repotest.Programs{folder: "x *dlpack.Tensor"}.Check(t, "../..", folder))
}
