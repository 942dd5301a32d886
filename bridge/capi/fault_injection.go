//go:build dlbridge_fault

package capi

/*
#include <stdint.h>
*/
import "C"

import "runtime"

// capiFault makes the calls that follow panic: at their beginning (1), in the middle of making a message
// (2), or not any more (0). Only the tests build it.
//
//export capiFault
func capiFault(where C.int) {
	fault = nil
	if where != 0 {
		fault = func(at int) {
			if at == int(where) {
				panic("as asked for")
			}
		}
	}
}

// capiAllocated returns how many bytes Go has allocated since the process began, freed or not.
//
//export capiAllocated
func capiAllocated() C.uint64_t {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return C.uint64_t(stats.TotalAlloc)
}
