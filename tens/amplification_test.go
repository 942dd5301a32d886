package tens_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/tens"
	"github.com/dlbridge/dlbridge/tens/tenstest"
)

// readLabel calls every function that decodes a label.
func readLabel(t testing.TB, text []byte) {
	frames := tenstest.Frames(text)
	amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
		if m, err := tens.Decode(frames); err == nil {
			m.DecodeLabel()
		}
		return nil
	})
	amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
		tens.DecodeAttributes(text)
		return nil
	})
	if l, err := tens.DecodeLabel(text); err == nil {
		for i := range l.Tensors {
			x := &l.Tensors[i]
			amplification.Require(t, 2*len(x.Shape), amplification.Variable, 0, func() func() {
				x.Strides()
				return nil
			})
			if i == 10 {
				break
			}
		}
	}
}

func readPacked(t testing.TB, data []byte) {
	amplification.Require(t, len(data), amplification.Variable, 0, func() func() {
		if m, err := tens.DecodePacked(data); err == nil {
			m.DecodeLabel()
		}
		return nil
	})
}

func TestLabelsTakeMemoryInProportionToTheirText(t *testing.T) {
	testmode.SkipMemory(t)
	for name, text := range tenstest.Labels() {
		t.Run(name, func(t *testing.T) { readLabel(t, text) })
	}
}

func TestFramesTakeMemoryInProportionToTheirBytes(t *testing.T) {
	testmode.SkipMemory(t)
	for name, data := range tenstest.Packed() {
		t.Run(name, func(t *testing.T) { readPacked(t, data) })
	}
}

// FuzzAmplification checks that decoding any label or packed message takes at most a fixed multiple of its size.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	for _, v := range readVectors(f) {
		if v.Frames == nil {
			continue
		}
		if _, _, label, err := tens.DecodePrefix(v.frames(f)[0]); err == nil {
			at := max(bytes.Index(label, []byte(`,{"`)), 0)
			f.Add(label, uint16(at), uint16(60), uint16(300))
		}
		if v.Encoded != nil && v.Encoded.File != "" {
			data := v.folder.File(f, v.Encoded.File)
			f.Add(data, uint16(len(data)), uint16(0), uint16(0))
		}
	}
	for _, text := range tenstest.Labels() {
		f.Add(text[:min(len(text), 4000)], uint16(0), uint16(0), uint16(0))
	}
	tensor := []byte(`{"TENS":{"tensors":[` + tenstest.Scalar + `,` + tenstest.Scalar + `]}}`)
	f.Add(tensor, uint16(bytes.LastIndexByte(tensor, ',')), uint16(1), uint16(0))
	f.Add(tensor, uint16(bytes.Index(tensor, []byte(`,{`))), uint16(len(tenstest.Scalar)+1), uint16(2000))
	f.Add([]byte("\x08ZIO0TENS\x18012345678901234567890123\x00"), uint16(34), uint16(1), uint16(60_000))
	f.Fuzz(func(t *testing.T, data []byte, at, size, times uint16) {
		data = amplification.Repeat(data, at, size, times)
		readLabel(t, data)
		readPacked(t, data)
	})
}

func TestFramesAreReadOneByOneAsAllAtOnce(t *testing.T) {
	for name, data := range tenstest.Packed() {
		t.Run(name, func(t *testing.T) {
			frames, want := tens.DecodeFrames(data)
			count := 0
			for frame, err := range tens.DecodeAllFrames(data) {
				if err != nil {
					require.Equal(t, want, err)
					return
				}
				if want == nil {
					require.Equal(t, frames[count], frame)
				}
				count++
			}
			require.NoError(t, want)
			require.Len(t, frames, count)
		})
	}
}
