package tens

// The causes that wrap [ErrInvalid] or [ErrUnsupported].
var (
	ErrTooFewFrames       = errTooFewFrames
	ErrSecondMessage      = errSecondMessage
	ErrPrefixShort        = errPrefixShort
	ErrBadMagic           = errBadMagic
	ErrBadLevel           = errBadLevel
	ErrHeaderSize         = errHeaderSize
	ErrFormInvalid        = errFormInvalid
	ErrLabelNotJSON       = errLabelNotJSON
	ErrLabelNotObject     = errLabelNotObject
	ErrLabelTooDeep       = errLabelTooDeep
	ErrDuplicateName      = errDuplicateName
	ErrAttributeInvalid   = errAttributeInvalid
	ErrTENSInvalid        = errTENSInvalid
	ErrTensorInvalid      = errTensorInvalid
	ErrMetadataInvalid    = errMetadataInvalid
	ErrNameInvalid        = errNameInvalid
	ErrNameAmbiguous      = errNameAmbiguous
	ErrShapeInvalid       = errShapeInvalid
	ErrWordInvalid        = errWordInvalid
	ErrDTypeInvalid       = errDTypeInvalid
	ErrOrderInvalid       = errOrderInvalid
	ErrAscendInvalid      = errAscendInvalid
	ErrPartsInvalid       = errPartsInvalid
	ErrPackingInvalid     = errPackingInvalid
	ErrPartInvalid        = errPartInvalid
	ErrSizeOverflow       = errSizeOverflow
	ErrDTypeUnknown       = errDTypeUnknown
	ErrDTypeWord          = errDTypeWord
	ErrPackingUnsupported = errPackingUnsupported
	ErrPointerUnsupported = errPointerUnsupported
)
