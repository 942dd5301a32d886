//go:build cgo

package core

// A Status says whether something was done, or what is wrong. C: core_status
type Status uint8

const (
	OK Status = iota
	Null
	BadVersion
	BadDType
	BadDevice
	BadLayout
	Overflow
	ReadOnly
	Unaligned
	NoMemory
	_ // a number that only package capi uses
	BadArgument

	// The C code has no more, except CORE_NEEDS_COPY.

	Closed   // the memory has no open tensor
	Borrowed // nothing would keep the memory
)
