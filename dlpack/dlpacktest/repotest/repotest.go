// Package repotest is for the tests of this repository: what package dlpacktest does not offer to the tests of others.
package repotest

import "sync/atomic"

var forgiven atomic.Int64

// Forgive tells dlpacktest.Main to expect a number of imports that a test leaves behind on purpose.
func Forgive(imports int64) { forgiven.Add(imports) }

// Forgiven returns how many imports [Forgive] has told of. dlpacktest.Main asks.
func Forgiven() int64 { return forgiven.Load() }
