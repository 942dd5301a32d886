"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("a count is compared with what is left by division, which cannot wrap", "view.go",
     "n > uint64(len(r.data)-r.at)/uint64(least)", "n*uint64(least) > uint64(len(r.data)-r.at)", "TestDecodeFileRefusesMalformedFilesWithTheByte"),
    ("an offset is compared with the data section before it is added to its beginning", "view.go",
     "p.offset > uint64(left) ||", "int64(p.offset) > left ||", "TestDecodeFileRefusesMalformedFilesWithTheByte"),
    ("an empty tensor hides no overlap", "view.go",
     "		if p.size == 0 {\n			continue\n		}\n", "", "TestDecodeFileRefusesMalformedFilesWithTheByte"),
    ("tensors may touch", "view.go",
     "int64(p.offset)-int64(last.offset) < last.size", "int64(p.offset)-int64(last.offset) <= last.size", "TestDecodeFileAcceptsGapsAndWhatIsBehindTheTensors"),
    ("the product of sizes beside a 0 must not overflow", "view.go",
     "			empty = true\n			continue\n", "			return 0, nil\n", "TestDecodeFileRefusesMalformedFilesWithTheByte"),
    ("sizes are listed with the fastest first", "view.go",
     "v.Shape[int(rank)-1-i] = int64(size)", "v.Shape[i] = int64(size)", "TestFilesOfThePythonPackageAreReadAlike"),
    ("a block of Q8_1 has 36 bytes", "dtype.go",
     '{"Q8_1", 32, 36, 0}', '{"Q8_1", 32, 40, 0}', "TestABlockOfQ8_1HasTheBytesOfGGML"),
    ("texts are parts of a copy of the header", "view.go",
     "bytes.Clone(data[:first.at])", "bytes.TrimPrefix(data[:first.at], nil)", "TestMetadataHaveMemoryOfTheirOwn"),
    ("nothing is allocated for a header that does not exist", "view.go",
     "	if !r.dry {\n		values = make([]T, n)\n", "	if values = make([]T, n); !r.dry {\n", "TestDecodeFileReadsNothingBeyondTheLimit"),
    ("a header is not read beyond the limit", "view.go",
     "data[:min(len(data), MaxHeader)]", "data", "TestDecodeFileReadsNothingBeyondTheLimit"),
    ("the tensor of a quantised type has its bytes last", "consumer.go",
     "s.Shape[len(v.Shape)-1] /= block", "s.Shape[len(v.Shape)-1] = int64(len(v.Data)) / size", "TestTensorsLieInTheFile"),
]
