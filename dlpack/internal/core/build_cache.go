package core

// void dlbcore_cached(void) __attribute__((visibility("hidden")));
import "C"

// dlbcore_cached does nothing. Without an exported function, this package would be compiled again, which takes ten
// seconds, in every `go build` with -buildmode=c-shared or c-archive: go then looks in its build cache for the header of
// each package that uses cgo, and such a header exists only for a package that exports functions.
//
//export dlbcore_cached
func dlbcore_cached() {}
