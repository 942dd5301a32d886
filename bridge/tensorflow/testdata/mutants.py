"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("integers of fewer bits than 32 in int_val have the range of their type", "dtype.go",
     "if n.bits >= 8 {", "if n.bits > 8 {", "TestIntegersOfFewBitsHaveTheRangeOfTheirType"),
    ("values in records of several fields are all found", "view.go",
     "p.more = p.first.num != 0\n", "p.more = p.first.num == f.num\n", "TestDecodeViewPassesOverWhatItDoesNotKnow"),
    ("the last value alone is repeated", "view.go",
     "from, filled := (n-1)*size, n*size", "from, filled := 0, n*size", "TestVectorsBecomeTensorsAndGoOutAgain"),
    ("a tensor of just the least number of elements is compressed", "encode.go",
     "h.count < e.least", "h.count <= e.least", "TestCompressIsTensorFlowsCompression"),
    ("a shape has 254 dimensions at most", "shape.go",
     "if s.rank == layout.MaxPartialRank {", "if s.rank > layout.MaxPartialRank {", "TestEveryRankTravels"),
    ("a tensor may take just as many bytes as the limit", "view.go",
     "p.count > d.limit/size {", "p.count >= d.limit/size {", "TestTheLimitCountsWhatIsMadeOfQuantisedNumbers"),
    ("complex elements need the alignment of their parts only", "../internal/payload/memory.go",
     "return dt.ItemSize() / 2", "return dt.ItemSize()", "TestComplexContentIsAliasedWhereItsNumbersAreAligned"),
    ("slices that only touch have no index in common", "tensorslice.go",
     "if start >= end {", "if start > end {", "TestTensorSlicesAreSetsOfIndices"),
]
