"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("the size of a header is compared with the file", "view.go",
     "if n > size-int64(start) {", "if n > size {", "TestEachTruncationIsRefused"),
    ("sizes beside a 0 must not overflow", "view.go",
     "layout.Mul(size, max(n, 1))", "layout.Mul(size, n)", "TestMalformedFilesAreRefusedAtTheirByte"),
    ("a number in parentheses is no tuple", "view.go",
     "if len(d.Shape) == 1 && !comma {", "if len(d.Shape) == 1 && comma {", "TestFilesOfNumPyAreReadInPlace"),
    ("both numbers of a complex one have their bytes swapped", "consumer.go",
     "swap(to, payload.Alignment(d.DType))", "swap(to, d.DType.ItemSize())", "TestFilesOfNumPyAreReadInPlace"),
    ("a header has at least one space before its newline", "view.go",
     "spaces += alignment - (len(dst)-start+spaces+1)%alignment", "spaces += (alignment - (len(dst)-start+spaces+1)%alignment) % alignment",
     "TestHeadersThatNeedNoSpacesHaveThem"),
    ("strided elements are copied in pieces", "../internal/payload/write.go",
     "if size <= most ||", "if size > 0 ||", "TestStridedTensorsAreWrittenWithoutASecondCopy"),
]
