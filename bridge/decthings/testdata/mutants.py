"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("a varint is in its shortest form", "varint.go",
     "if sizeVarint(x) < n {", "if sizeVarint(x) < n-2 {", "TestReaderRefusesHeadersAndLengths"),
    ("the first boolean is 0 or 1, too", "../internal/payload/source.go",
     "t, out[start:])", "t, out[min(start+1, len(out)):])", "TestAppendTensorFindsBooleansOtherThan0And1Anywhere"),
    ("a media element may have a format and no content", "view.go",
     "if len(element) < n {", "if len(element) <= n {", "TestVectorsBecomeTensorsAndElements"),
    ("offsets in errors of a Reader count from the beginning of the stream", "reader.go",
     "\tr.start += int64(len(tensor))\n", "", "TestReaderSaysWhereAStreamIsCutShort"),
    ("no bytes are left in a section behind its last element", "view.go",
     "if d != Doc && at < len(data) {", "if d == Rs015 && at < len(data) {", "TestSectionsEndWithTheirLastElement"),
]
