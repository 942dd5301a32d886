"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("a libtvm_ffi of another version is not used", "tvmffi.c",
     "  if ((why = other_version(info.dli_fname, functions[0])) != NULL) return why;\n", "", "TestLibraryInAProcessOfItsOwn"),
    ("no handler reads the arguments of another version", "serve.go",
     "attachPresent(); err != nil {", "attachPresent(); err != nil && result == nil {", "TestLibraryInAProcessOfItsOwn"),
]
