//go:build !linux && !darwin

package dlpack

// canMap returns true, because it cannot ask this system.
func canMap(int) bool { return true }
