//go:build dlbridge_fault

package capi

import "C"

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
