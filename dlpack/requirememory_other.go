//go:build !linux && !darwin

package dlpack

// canMap does not know.
func canMap(int) bool { return true }
