// Package segment has the C files for memory that processes share: segments, the messages that pass tensors in segments to
// another process, and offers of segments to whoever has a handle. bridge/shm, the C interface and the Python package use
// them. They are plain C, and empty outside Linux.
package segment
