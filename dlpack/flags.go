package dlpack

// Flags are the bits of DLManagedTensorVersioned.flags (DLPack C API, "Macros"). Bits without a name here come from newer
// versions: [Tensor.Flags] returns them, and exports do not pass them on.
type Flags uint64

// The flags of DLPack 1.3.
const (
	ReadOnly      Flags = 1 << iota // C: DLPACK_FLAG_BITMASK_READ_ONLY
	IsCopied                        // C: DLPACK_FLAG_BITMASK_IS_COPIED
	SubbytePadded                   // C: DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
)
