//go:build dlbridge_fault

package capi

/*
#include <stdint.h>
*/
import "C"

import "runtime"

// capiFault makes all following calls panic: with 1 at their beginning, with 2 just before their message or value is
// complete. With 0 they work again. Only builds for tests contain this function.
//
//export capiFault
func capiFault(where C.int) {
	injectFault = nil
	if where != 0 {
		injectFault = func(at int) {
			if at == int(where) {
				panic("requested by a test")
			}
		}
	}
}

// capiAllocated returns the number of bytes that Go has allocated since the process began, including freed memory.
//
//export capiAllocated
func capiAllocated() C.uint64_t {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return C.uint64_t(stats.TotalAlloc)
}
