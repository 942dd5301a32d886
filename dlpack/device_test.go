package dlpack_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestDeviceTypesAreTheNumbersOfTheStandard(t *testing.T) {
	for number, name := range map[dlpack.DeviceType]string{
		1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 11: "rocm_host",
		12: "ext_dev", 13: "cuda_managed", 14: "oneapi", 15: "webgpu", 16: "hexagon", 17: "maia", 18: "trn",
		19: "tpu", 20: "tpu_host", 21: "ascend", 0: "0", 5: "5", 6: "6", 22: "22", 99: "99", -1: "-1",
	} {
		assert.Equal(t, name, number.String())
	}
	assert.Equal(t, []dlpack.DeviceType{1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}, []dlpack.DeviceType{
		dlpack.CPU, dlpack.CUDA, dlpack.CUDAHost, dlpack.OpenCL, dlpack.Vulkan, dlpack.Metal, dlpack.VPI, dlpack.ROCM,
		dlpack.ROCMHost, dlpack.ExtDev, dlpack.CUDAManaged, dlpack.OneAPI, dlpack.WebGPU, dlpack.Hexagon, dlpack.MAIA, dlpack.Trn,
		dlpack.TPU, dlpack.TPUHost, dlpack.Ascend,
	})
}

func TestDevicesPrintAndParseWithAnyNumbers(t *testing.T) {
	for kind := dlpack.DeviceType(-1); kind < 100; kind++ {
		for _, id := range []int32{0, 1, 17, -1, math.MaxInt32, math.MinInt32} {
			d := dlpack.Device{Type: kind, ID: id}
			got := must.Do(dlpack.ParseDevice(d.String()))(t)
			require.Equal(t, d, got)
			text := must.Do(json.Marshal(d))(t)
			require.Equal(t, fmt.Sprintf("%q", d), string(text))
			got = dlpack.Device{}
			require.NoError(t, json.Unmarshal(text, &got))
			require.Equal(t, d, got)
		}
	}
	assert.Equal(t, "cpu", dlpack.Device{Type: dlpack.CPU}.String())
	assert.Equal(t, "cpu:1", dlpack.Device{Type: dlpack.CPU, ID: 1}.String())
	assert.Equal(t, "cuda:0", dlpack.Device{Type: dlpack.CUDA}.String())
	assert.Equal(t, "99:0", dlpack.Device{Type: 99}.String())
}

func TestParseDeviceTakesTheFirstOfAType(t *testing.T) {
	for text, want := range map[string]dlpack.Device{
		"cpu:0": {Type: dlpack.CPU},
		"cuda":  {Type: dlpack.CUDA},
		"99":    {Type: 99},
	} {
		got := must.Do(dlpack.ParseDevice(text))(t)
		assert.Equal(t, want, got)
	}
}

func TestParseDeviceRejects(t *testing.T) {
	for _, text := range []string{
		"", ":", ":0", "cpu:", "cpu:x", "cpu:0:0", "cpu :0", "CPU", "gpu", "cuda:00", "cuda:+1", "cuda:-0", "cuda:2147483648",
		"2147483648:0", "0x1:0", "01",
	} {
		t.Run(text, func(t *testing.T) {
			d, err := dlpack.ParseDevice(text)
			require.ErrorIs(t, err, dlpack.ErrDevice)
			assert.EqualError(t, err, fmt.Sprintf(`dlpack: parse device: %q is not like "cpu" or "cuda:0"`, text))
			assert.ErrorAs(t, err, new(*dlpack.Error))
			assert.Zero(t, d)
			d = dlpack.Device{Type: dlpack.CUDA, ID: 3}
			assert.Equal(t, err, d.UnmarshalText([]byte(text)))
			assert.Equal(t, dlpack.Device{Type: dlpack.CUDA, ID: 3}, d)
		})
	}
}

func TestOnlyHostMemoryIsReadable(t *testing.T) {
	for kind := dlpack.DeviceType(-1); kind < 100; kind++ {
		want := kind == dlpack.CPU || kind == dlpack.CUDAHost || kind == dlpack.ROCMHost
		assert.Equal(t, want, dlpack.Device{Type: kind, ID: 3}.HostReadable(), kind)
	}
}

func ExampleParseDevice() {
	d, err := dlpack.ParseDevice("cuda:1")
	fmt.Println(d.Type, d.ID, d.HostReadable(), err)
	// Output: cuda 1 false <nil>
}
