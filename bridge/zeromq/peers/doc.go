// Package peers exchanges messages between dlbridge and other implementations of ZeroMQ in Go and C. It is a separate
// module, so that no other package depends on these implementations.
package peers
