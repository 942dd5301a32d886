//go:build !linux && !darwin

package dlpack

// canMap returns true: it cannot ask this system.
func canMap(int) bool { return true }
