//go:build cgo && asan && linux

package library

// When a program starts, AddressSanitizer looks up the function that throws C++ exceptions. If it finds none, it ends
// the program at the first exception. The libraries throw exceptions but are loaded later, so the program is linked
// with libstdc++.

// #cgo LDFLAGS: -Wl,--no-as-needed -lstdc++ -Wl,--as-needed
import "C"
