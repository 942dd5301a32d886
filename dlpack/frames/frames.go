// Package frames distinguishes calls of this module from calls of the program, for printed stacks.
package frames

import (
	"reflect"
	"runtime"
	"strings"
)

type here struct{}

// module is the import path of this module.
var module = strings.TrimSuffix(reflect.TypeFor[here]().PkgPath(), "/dlpack/frames")

// OfLibrary reports whether a call belongs to this module. Its tests, examples and commands count as the program.
func OfLibrary(f runtime.Frame) bool {
	return strings.HasPrefix(f.Function, module+"/") && !strings.HasPrefix(f.Function, module+"/examples/") && !strings.HasSuffix(f.File, "_test.go")
}
