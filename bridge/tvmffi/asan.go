//go:build cgo && asan && linux

package tvmffi

// AddressSanitizer looks for what throws C++ exceptions when a program starts, and ends the program
// at the first exception when there was none: libtvm_ffi, which throws, comes later.

// #cgo LDFLAGS: -Wl,--no-as-needed -lstdc++ -Wl,--as-needed
import "C"
