"""Mutants of this package, as .ci/mutants/run.py makes them: each breaks one rule, and a test must notice."""

# (rule, file in this package, text, instead, test)
MUTANTS = [
    ("a page that is gone is an error", "part.go", "debug.SetPanicOnFault(debug.SetPanicOnFault(true))", "debug.SetPanicOnFault(debug.SetPanicOnFault(false))",
     "TestReadingAPageThatIsGoneIsAnError"),
    ("the size is compared with that at opening", "part.go", "case now.Size() != p.opened.Size():", "case now.Size() > p.opened.Size():",
     "TestAFileThatBecomesShorter"),
    ("files without a size are refused as such", "part.go", "n > 0 {", "n > 1 {", "TestOpenRefusesFilesWithoutASize"),
    ("Close waits for calls of others", "file.go", "	f.mutex.RLock()\n	defer f.mutex.RUnlock()\n	e := &f.list[i]", "	e := &f.list[i]",
     "TestCloseWhileOthersUseTheFile"),
    ("not a link is replaced, but the file", "write.go", "err == nil { // replace the file", "err != nil { // replace the file", "TestWriteReplacesAFile"),
    ("no temporary file is left", "write.go", "os.Remove(temporary)", "_ = temporary", "TestWriteRefuses"),
]
