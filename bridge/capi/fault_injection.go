//go:build dlbridge_fault

package capi

/*
#include <stdint.h>
*/
import "C"

import "runtime"

// capiFault makes all following calls panic: at their beginning (1) or just before their message or value is complete (2).
// 0 ends that. Only builds for tests contain it.
//
//export capiFault
func capiFault(where C.int) {
	fault = nil
	if where != 0 {
		fault = func(at int) {
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
