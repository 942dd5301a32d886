// Package peers exchanges messages between dlbridge and other implementations of ZeroMQ in Go and C. It is a module of its own, so that
// nobody else needs them.
package peers
