//go:build cgo

package payload

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack"
)

// CheckLender refuses what is no row of bytes: a one-dimensional uint8 tensor without gaps.
//
// Errors, without a prefix: [dlpack.ErrClosed], [dlpack.ErrLayout].
func CheckLender(t *dlpack.Tensor) error {
	if err := t.RequireOpen(); err != nil {
		return err
	}
	if t.DType() != dlpack.Uint8 || t.Rank() != 1 || !t.IsContiguous() {
		return fmt.Errorf("%v is no row of bytes: %w", t, dlpack.ErrLayout)
	}
	return nil
}

// OwnCopy puts a copy in C memory, aligned to [dlpack.NewAlignment], in the place of a view that was made by
// s, and as writable as that was.
//
// Ownership: view is closed; the result is the caller's. Lifetime: until its Close. Threads: any. On error:
// as [dlpack.Tensor.Copy]; view is closed, too.
func OwnCopy(view *dlpack.Tensor, s dlpack.Spec) (*dlpack.Tensor, error) {
	defer view.Close()
	c, err := view.Copy()
	if err != nil || !s.ReadOnly {
		return c, err
	}
	defer c.Close()
	s.ByteOffset = 0
	return c.View(s)
}

// CheckRoom tells, before memory of Go's is taken for the elements of a tensor, whether they can be read and
// there is memory for all of them: of a closed tensor, of a device and of a few bytes that are seen often they
// may be more than there is, and Go's allocator then ends the process.
//
// Errors: [dlpack.ErrClosed], [dlpack.ErrDevice], [dlpack.ErrMemory].
func CheckRoom(t *dlpack.Tensor) error {
	n := t.NumBytes()
	if n < 1<<30 {
		return nil // who reads them will see
	}
	touched, err := t.AsBytes()
	if err != nil {
		return err
	}
	defer touched.Close()
	if !t.Device().HostReadable() {
		return fmt.Errorf("memory on %v cannot be read: %w", t.Device(), dlpack.ErrDevice)
	}
	if n <= touched.NumBytes() {
		return nil
	}
	probe, err := dlpack.New(dlpack.Uint8, n)
	if err != nil {
		return err
	}
	return probe.Close()
}
