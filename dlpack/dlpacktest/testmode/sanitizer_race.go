//go:build race

package testmode

// Sanitizer is the flag of go build that the tests run under, or empty.
const Sanitizer = "-race"
