//go:build cgo

package repotest

// static void nothing(void) {}
import "C"

// CallC calls a C function that does nothing. Benchmarks use it to measure the cost of a call into C.
func CallC() { C.nothing() }
