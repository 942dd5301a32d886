//go:build cgo

package bridge_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/tens"
	"github.com/dlbridge/dlbridge/tens/tenstest"
)

// Any number of tensors may share a part, and each one that is not aligned is copied separately.
func TestCopiesOfAlignAreBounded(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	const size = 1 << 20
	tensors := func(n int) ([]*dlpack.Tensor, error) {
		one := fmt.Sprintf(`{"part":0,"shape":[%d],"word":1,"dtype":"u"}`, size)
		label := `{"TENS":{"tensors":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}}`
		payload := make([]byte, size+1)
		if uintptr(unsafe.Pointer(&payload[0]))%2 == 0 {
			payload = payload[1:]
		}
		msg := must.Do(tens.Decode([][]byte{[]byte("ZIO0TENS" + label), make([]byte, 24), payload[:size]}))(t)
		return bridge.Decode(msg, bridge.Align(64))
	}
	ts, err := tensors(68) // the limit: four times the part plus 64 MiB
	require.NoError(t, err)
	require.Len(t, ts, 68)
	assert.NotZero(t, ts[67].Flags()&dlpack.IsCopied)
	for _, x := range ts {
		require.NoError(t, x.Close())
	}
	ts, err = tensors(69)
	require.ErrorIs(t, err, dlpack.ErrMemory)
	assert.ErrorContains(t, err, "bridge: tensor 68: aligned copies need more than")
	assert.Nil(t, ts)
}

// FuzzAmplification: the tensors of any label take at most a fixed multiple of its size.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	for _, v := range readVectors(f, "tens", "layout") {
		if frames := v.read(f); len(frames) > 0 && len(frames[0]) > 8 {
			label := frames[0][8:]
			at := max(bytes.Index(label, []byte(`,{`)), 0)
			f.Add(label, uint16(at), uint16(60), uint16(1000))
		}
	}
	tensors := []byte(`{"TENS":{"tensors":[` + tenstest.Scalar + `,` + tenstest.Scalar + `]}}`)
	f.Add(tensors, uint16(bytes.Index(tensors, []byte(`,{`))), uint16(len(tenstest.Scalar)+1), uint16(2000))
	f.Fuzz(func(t *testing.T, label []byte, at, size, times uint16) {
		formats.TENS.Measure(t, amplification.Repeat(label, at, size, times), false)
	})
}
