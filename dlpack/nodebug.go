//go:build cgo && !debug

package dlpack

const debugging = false
