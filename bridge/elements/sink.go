package elements

// A Sink receives the elements of a tensor from a decoder, for callers that keep them in memory of their own.
//
// A decoder calls Memory at most once, for elements of a fixed size that the input does not contain in the form that
// they have in memory, such as varints; or, for elements of variable size, Begin once and then Take until all of them
// have been passed. An error of Memory or Begin ends the decoding and is returned. If the decoder returns an error, the
// sink may have received only some elements.
type Sink interface {
	// Memory returns size zeroed bytes, which the decoder fills and which the decoded view then refers to.
	Memory(size int) ([]byte, error)
	// Begin announces count elements. The decoder has checked count against the length of the input. formats
	// reports whether each element has a media format. The sink must not keep shape.
	Begin(dtype string, shape []int64, count int, formats bool) error
	// Take receives the next elements in row-major order, and their formats if Begin announced any. The sink must
	// not keep the two slices, which the decoder uses again; the bytes of the values and formats lie in the input.
	Take(values [][]byte, formats []string)
}
