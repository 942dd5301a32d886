package dlpack

import "strconv"

// Version is the version of the DLPack ABI (DLPack C API, "DLPackVersion"). Versions of one major
// have one layout; a minor only adds codes and flags.
//
// C: DLPackVersion
type Version struct {
	Major, Minor uint32
}

// Current is the version that is written here. C: DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION
var Current = Version{Major: 1, Minor: 3}

// String prints the version as 1.3.
func (v Version) String() string {
	return strconv.FormatUint(uint64(v.Major), 10) + "." + strconv.FormatUint(uint64(v.Minor), 10)
}
