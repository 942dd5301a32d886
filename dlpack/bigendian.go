//go:build armbe || arm64be || m68k || mips || mips64 || mips64p32 || ppc || ppc64 || s390 || s390x || shbe || sparc || sparc64

package dlpack

// The formats have little-endian elements, and this module does not swap bytes.
var _ = dlbridge_does_not_support_big_endian_machines
