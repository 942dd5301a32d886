// Package frames tells the calls of this module from those of the program, for stacks that are printed.
package frames

import (
	"reflect"
	"runtime"
	"strings"
)

type here struct{}

// module is the import path of this module.
var module = strings.TrimSuffix(reflect.TypeFor[here]().PkgPath(), "/dlpack/frames")

// OfLibrary reports whether a call is one of this module. Those of its tests, examples and commands count as the program's.
func OfLibrary(f runtime.Frame) bool {
	return strings.HasPrefix(f.Function, module+"/") && !strings.HasPrefix(f.Function, module+"/examples/") && !strings.HasSuffix(f.File, "_test.go")
}
