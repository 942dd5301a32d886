package core

// void dlbcore_cached(void) __attribute__((visibility("hidden")));
import "C"

// dlbcore_cached does nothing, but saves ten seconds in each `go build` with -buildmode=c-shared or c-archive. There, go
// takes a package that uses cgo from its build cache only if it also finds the header of the functions that the package
// exports to C. A package that exports none has no such header, and is compiled again every time.
//
//export dlbcore_cached
func dlbcore_cached() {}
