//go:build cgo

package core

// A Status says whether something was done, or what is wrong. C: dlbcore_status
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

	// The C code has none of the following; instead it has CORE_ERR_SYSTEM, CORE_ERR_CLOSED and CORE_NEEDS_COPY.

	Closed   // the memory has no open tensor or no slot, or the export was released or taken over
	Borrowed // nothing would keep the memory of an export alive
)
