// Package segment has the C files for memory that processes share: segments; messages that pass tensors in segments to
// another process; and offers, which let another process fetch a segment with a handle. The Go package bridge/shm, the
// C interface and the Python package use these files. They are plain C, and empty outside Linux.
package segment
