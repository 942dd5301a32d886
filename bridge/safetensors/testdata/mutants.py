"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("tensors do not overlap", "view.go", "if v.Offset < begin {", "if v.Offset < begin && len(v.Data) > 0 {",
     "TestMalformedFilesAreRefusedWithTheByteOfTheFault"),
    ("a product does not overflow before a 0 comes", "view.go", "} else if count, fits = layout.Mul(count, dim); !fits {",
     "} else if count, fits = layout.Mul(count, dim); !fits && dim == 0 {", "TestMalformedFilesAreRefusedWithTheByteOfTheFault"),
    ("the last tensor ends with the file", "view.go", "if begin < end {", "if begin+1 < end {",
     "TestMalformedFilesAreRefusedWithTheByteOfTheFault"),
    ("tensors of a type are in the order of their names", "encode.go", ", cmp.Compare(a.Name, b.Name))", ")",
     "TestFilesOfTheReferenceAreReadAndWrittenByteForByte"),
]
