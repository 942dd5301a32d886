"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("the index behind the end of a piece is in the next one", "composite.go",
     "within[d] >= p.view.Shape[d]", "within[d] > p.view.Shape[d]", "TestCompositesSelectWhatTheirPartsDo"),
    ("the parts of a walk do not overlap", "walk.go",
     "\tif int64(i) < more {\n", "\tif int64(i) <= more {\n", "TestWalkPartsAreTheWholeOnce"),
]
