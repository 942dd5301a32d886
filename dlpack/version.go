//go:build cgo

package dlpack

import (
	"strconv"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// Version is a version of the DLPack ABI (DLPack C API, "DLPackVersion"). The structs have the same layout in all versions
// with the same major number; a new minor version only adds codes and flags.
//
// C: DLPackVersion
type Version struct {
	Major, Minor uint32
}

// Current is the version of this package's exports. C: DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION
var Current = Version(core.Current)

// String returns the version in the form "1.3".
func (v Version) String() string {
	return strconv.FormatUint(uint64(v.Major), 10) + "." + strconv.FormatUint(uint64(v.Minor), 10)
}
