package elements

// A Sink receives the elements of a tensor from a decoder. It is for callers that store the elements themselves.
//
// A decoder calls Memory at most once, for elements of a fixed size whose form in the input differs from their form in
// memory, such as varints. For elements of variable size it calls Begin once, and then Take until it has passed all
// elements. If Memory or Begin returns an error, the decoder stops and returns it. If the decoder returns an error, the
// sink may have received only some elements.
type Sink interface {
	// Memory returns size zeroed bytes. The decoder fills them, and the decoded view refers to them.
	Memory(size int) ([]byte, error)
	// Begin announces count elements. The decoder has checked count against the length of the input. formats
	// reports whether each element has a media format. The sink must not keep shape.
	Begin(dtype string, shape []int64, count int, formats bool) error
	// Take receives the next elements in row-major order, and their formats if Begin announced formats. The sink must
	// not keep the two slices, because the decoder reuses them. The bytes of the values and formats lie in the input.
	Take(values [][]byte, formats []string)
}
