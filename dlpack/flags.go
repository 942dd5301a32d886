package dlpack

import (
	"fmt"
	"strings"
)

// Flags are the bits of DLManagedTensorVersioned.flags (DLPack C API, "Macros"). Bits without a name here come from newer
// versions: [Tensor.Flags] returns them, but exports do not have them.
//
// IsCopied means that the function that returned the tensor copied its elements into new memory, which only its caller holds.
// Every function that returns a copy sets this flag, even if it also changes the elements: [Tensor.Copy], [Tensor.Contiguous] and
// [Tensor.Align] if they copy, [Tensor.Convert], [Concat], [Stack], [Tensor.ExportCopy], shm.Copy, and decoders that must copy the
// elements out of the message. Views, shares ([Tensor.Share]) and exports ([Tensor.Export]) do not have the flag, because their
// memory is shared.
type Flags uint64

// The flags of DLPack 1.3.
const (
	ReadOnly      Flags = 1 << iota // C: DLPACK_FLAG_BITMASK_READ_ONLY
	IsCopied                        // C: DLPACK_FLAG_BITMASK_IS_COPIED
	SubbytePadded                   // C: DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
)

// String returns the names of the flags, as in "ReadOnly|IsCopied". Bits without a name are printed as one number, as in
// "ReadOnly|0x18". Without flags it returns "0".
func (f Flags) String() string {
	var names []string
	for i, name := range []string{"ReadOnly", "IsCopied", "SubbytePadded"} {
		if flag := Flags(1) << i; f&flag != 0 {
			names = append(names, name)
			f &^= flag
		}
	}
	if f != 0 {
		names = append(names, fmt.Sprintf("%#x", uint64(f)))
	}
	if names == nil {
		return "0"
	}
	return strings.Join(names, "|")
}
