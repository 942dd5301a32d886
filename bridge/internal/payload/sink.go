package payload

import "github.com/dlbridge/dlbridge/bridge/elements"

// Discard is a Sink that keeps nothing. Decoders use it to find the error in an input that cannot be right.
var Discard elements.Sink = discard{}

type discard struct{}

func (discard) Memory(size int) ([]byte, error)        { return make([]byte, size), nil }
func (discard) Begin(string, []int64, int, bool) error { return nil }
func (discard) Take([][]byte, []string)                {}

// Chunk returns how many of n elements a decoder passes to a Sink at a time.
func Chunk(n int64) int64 { return min(n, 128) }
