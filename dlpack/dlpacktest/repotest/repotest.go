// Package repotest has helpers for the tests of this repository only; package dlpacktest is for all users.
package repotest

import "sync/atomic"

var forgivenImports, forgivenPinned atomic.Int64

// Forgive tells dlpacktest.Main how many imports and pinned bytes a test leaves behind on purpose.
func Forgive(imports, pinned int64) {
	forgivenImports.Add(imports)
	forgivenPinned.Add(pinned)
}

// Forgiven returns the sums of the numbers passed to [Forgive], for dlpacktest.Main.
func Forgiven() (imports, pinned int64) { return forgivenImports.Load(), forgivenPinned.Load() }
