// Package repotest is for the tests of this repository: what package dlpacktest does not offer to the tests of others.
package repotest

import "sync/atomic"

var forgivenImports, forgivenPinned atomic.Int64

// Forgive tells dlpacktest.Main to expect a number of imports, and of bytes that are pinned, that a test leaves behind on purpose.
func Forgive(imports, pinned int64) {
	forgivenImports.Add(imports)
	forgivenPinned.Add(pinned)
}

// Forgiven returns what [Forgive] has told of. dlpacktest.Main asks.
func Forgiven() (imports, pinned int64) { return forgivenImports.Load(), forgivenPinned.Load() }
