//go:build race

package capi_test

// sanitizer is the flag of go build that this test runs under.
const sanitizer = "-race"
