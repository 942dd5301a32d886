//go:build cgo

package core

// A Status is the result of an operation: success, or the kind of error. C: dlbcore_status
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
	_ // CORE_ERR_FORMAT, which nothing here returns
	BadArgument

	// The C code lacks the following. It has CORE_ERR_SYSTEM, CORE_ERR_CLOSED and CORE_NEEDS_COPY instead.

	Closed   // the memory has no open tensor or no slot, or the export was released or taken over
	Borrowed // nothing would keep the memory of an export alive
)
