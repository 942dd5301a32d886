package repotest

// A FailingWriter is an io.Writer that accepts N bytes, and returns Err for a write beyond these.
type FailingWriter struct {
	N   int
	Err error
}

func (w *FailingWriter) Write(data []byte) (int, error) {
	n := min(len(data), w.N)
	w.N -= n
	if n < len(data) {
		return n, w.Err
	}
	return n, nil
}
