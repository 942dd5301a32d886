package dlpack

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// DeviceType says what kind of memory a tensor lies in (DLPack C API, "DLDeviceType"). Types without a name here keep
// their numbers.
//
// C: DLDeviceType
type DeviceType int32

// The device types of DLPack 1.3.
const (
	CPU         DeviceType = 1
	CUDA        DeviceType = 2
	CUDAHost    DeviceType = 3 // page-locked host memory
	OpenCL      DeviceType = 4
	Vulkan      DeviceType = 7
	Metal       DeviceType = 8
	VPI         DeviceType = 9
	ROCM        DeviceType = 10
	ROCMHost    DeviceType = 11 // page-locked host memory
	ExtDev      DeviceType = 12
	CUDAManaged DeviceType = 13
	OneAPI      DeviceType = 14
	WebGPU      DeviceType = 15
	Hexagon     DeviceType = 16
	MAIA        DeviceType = 17
	Trn         DeviceType = 18
)

// The device types that DLPack has added since its version 1.3.
const (
	TPU     DeviceType = 19
	TPUHost DeviceType = 20 // host memory for transfers to a TPU
	Ascend  DeviceType = 21
)

var deviceNames = map[DeviceType]string{
	CPU:         "cpu",
	CUDA:        "cuda",
	CUDAHost:    "cuda_host",
	OpenCL:      "opencl",
	Vulkan:      "vulkan",
	Metal:       "metal",
	VPI:         "vpi",
	ROCM:        "rocm",
	ROCMHost:    "rocm_host",
	ExtDev:      "ext_dev",
	CUDAManaged: "cuda_managed",
	OneAPI:      "oneapi",
	WebGPU:      "webgpu",
	Hexagon:     "hexagon",
	MAIA:        "maia",
	Trn:         "trn",
	TPU:         "tpu",
	TPUHost:     "tpu_host",
	Ascend:      "ascend",
}

// String returns the name of the type, or its number if it has no name here.
func (t DeviceType) String() string {
	if name, ok := deviceNames[t]; ok {
		return name
	}
	return strconv.Itoa(int(t))
}

// Device says where memory lies (DLPack C API, "DLDevice"). ID is the number of the device among those of its type; it
// is 0 for the host's own memory.
//
// C: DLDevice
type Device struct {
	Type DeviceType
	ID   int32
}

// String returns the device in the form "cuda:0". The CPU with ID 0 is "cpu", and a type without a name is its number, as
// in "99:0".
func (d Device) String() string {
	if d == (Device{Type: CPU}) {
		return "cpu"
	}
	return d.Type.String() + ":" + strconv.Itoa(int(d.ID))
}

// LogValue implements [slog.LogValuer]: in a log line the device is the text of [Device.String].
func (d Device) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText implements [encoding.TextMarshaler], so that a device is "cuda:0" in JSON. It never fails.
func (d Device) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It reads what [ParseDevice] reads.
//
// Errors: as ParseDevice; d is unchanged then.
func (d *Device) UnmarshalText(text []byte) error {
	parsed, err := ParseDevice(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// HostReadable reports whether the host may read the memory. It is true for memory of the CPU, also if CUDA or ROCm has
// page-locked it. It is false for [CUDAManaged], because the host may use this memory only while no kernel uses it, and a
// description does not state this. It is false for [TPUHost], because the version of DLPack that this package implements
// ([Current]) does not define it.
//
// C: dlbcore_host_readable, which must agree
func (d Device) HostReadable() bool {
	return d.Type == CPU || d.Type == CUDAHost || d.Type == ROCMHost
}

// ParseDevice parses the text that [Device.String] returns. Without a colon the ID is 0. Errors: [ErrDevice].
func ParseDevice(text string) (Device, error) {
	name, id, found := strings.Cut(text, ":")
	if !found {
		id = "0"
	}
	d := Device{}
	ok := false
	if d.Type, ok = parseDeviceType(name); ok {
		d.ID, ok = parseInt32(id)
	}
	if !ok {
		return Device{}, &Error{Op: "parse device", Where: fmt.Sprintf(`%.40q is not like "cpu" or "cuda:0"`, text), Err: ErrDevice}
	}
	return d, nil
}

func parseDeviceType(text string) (DeviceType, bool) {
	for t, name := range deviceNames {
		if name == text {
			return t, true
		}
	}
	n, ok := parseInt32(text)
	return DeviceType(n), ok
}

// parseInt32 parses a decimal number. It accepts only the spelling that strconv prints, so "+1" and "01" are refused.
func parseInt32(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && strconv.FormatInt(n, 10) == text
}
