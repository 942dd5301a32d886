"""Breaks each invariant of the ownership core in turn, and requires that a test notices.

    run.py FOLDER [FIRST]

A mutant is a change of one place in the sources, in a copy of the tree under FOLDER. Each has to make the tests that are
named beside it fail. A mutant whose text is no longer found, or that does not compile, is an error here. With FIRST, the
mutants before that number are left out.
"""

import os
import pathlib
import shutil
import subprocess
import sys

GO = os.environ.get("GO", "go")
CORE = "dlpack/internal/core/"
# (invariant, file, text, instead, tests)
MUTANTS = [
    ("a handle takes shares in its own turn only", "slot.go",
     "case handle(count)>>32 != h>>32 || shares == 0:", "case shares == 0:", "TestOldHandlesTakeNothing"),
    ("no share is taken where none is left", "slot.go",
     "case handle(count)>>32 != h>>32 || shares == 0:", "case handle(count)>>32 != h>>32:", "TestOldHandlesTakeNothing"),
    ("each use of a slot has a turn of its own", "slot.go",
     "turn := s.count>>32 + 1", "turn := max(s.count>>32, 1)", "TestOldHandlesTakeNothing"),
    ("the number of shares is bounded", "slot.go",
     "case shares == mostShares:", "case false:", "TestSharesHaveAnEnd"),
    ("Go's memory is unpinned when its last share is dropped", "slot.go",
     "		s.pin().free()\n", "", "TestExportSlice"),
    ("Go's memory is pinned while an export lives", "pin.go",
     "		p.pinner.Pin(start)\n", "", "TestExportSlice"),
    ("only memory that nobody else has a share of is detached", "pin.go",
     "uint32(atomic.LoadUint64(&s.count)) == 1 && ", "atomic.LoadUint64(&s.count) > 0 && ", "TestDetach"),
    ("who takes the handle out takes Go's share off, and nobody else", "pin.go",
     "m.swapHandle(h, noHandle) && s.leave()", "h != noHandle && s.leave()", "TestDetach"),
    ("Close takes the handle out", "memory.go",
     "h = handle(atomic.SwapUint64(&m.handle, uint64(noHandle)))", "h = m.loadHandle()", "TestDetach"),
    ("an import has one slot", "memory.go",
     "if !m.swapHandle(noHandle, h) {", "if !m.swapHandle(noHandle, h) && !m.guarded {", "TestAMemoryHasOneSlot"),
    ("a closed tensor is not exported", "../../producer.go",
     "	if t.isClosed() {\n		return nil, t.errClosed(op)\n	}\n	b, status", "	b, status", "Closed|Close"),
    ("a block rests for 64 exports", "block.go",
     "c.exports-c.free.first.since > quarantine", "c.exports-c.free.first.since >= quarantine", "TestBlocksRestAndAreFew"),
    ("two looks for each export", "block.go", "	looks     = 2\n", "	looks     = 1\n", "TestDeadBlocksDoNotPileUp"),
    ("live blocks stay where they are", "block.go",
     "if atomic.LoadUint64(&b.state) != stateDead {", "if atomic.LoadUint64(&b.state) == stateTaken {", "TestBlocksRestAndAreFew"),
    ("only slabs without live blocks give their pages back", "block.go",
     "		if blockAt(at).since == 0 {\n			return false\n		}\n", "", "TestTrimMeetsExports|TestPagesAreGivenBack"),
    ("blocks rest where their pages were given back, too", "block.go",
     " && c.exports-c.slabs[c.spare[0]].since > quarantine", "", "TestPagesAreGivenBackAfterAPeak"),
    ("a deleter ends a block once", "block.c",
     "    if (state != CORE_LIVE && !(taken && state == CORE_TAKEN)) {", "    if (state == CORE_FREE) {", "SecondDelete|Double"),
    ("Go's release ends a block once", "block.go",
     "if !atomic.CompareAndSwapUint64(&b.state, state, stateDead) {", "if atomic.SwapUint64(&b.state, stateDead); false {", "SecondDelete|TakenOverOnce"),
    ("the last share of C code's ends the memory", "share.c",
     "  if (core_share_leave(share)) core_share_end(share);", "  core_share_leave(share);", "TestTheLastDeleterAfterClose|TestExportSlice"),
    ("a slot is returned when C code drops its last share", "slot.c", "  core_return(slot->returns, slot, &slot->share.data);\n", "", "TestExportSlice|TestWakeAt"),
    ("Go is woken for what waits", "slot.c", "case CORE_SLOT_PINNED: core_wake(bytes); break;", "case CORE_SLOT_PINNED: break;", "TestWakeAt"),
    ("an export is taken over once", "export.go",
     "case !ours || b != nil && atomic.CompareAndSwapUint64(&b.state, stateLive, stateTaken):", "case !ours || b != nil:", "TakenOverOnce"),
]


def main(folder: pathlib.Path, first: int = 0) -> int:
    root = pathlib.Path(__file__).resolve().parents[2]
    shutil.rmtree(folder, ignore_errors=True)
    files = subprocess.run(["git", "ls-files", "-z", "go.mod", "go.sum", "dlpack", "include"], cwd=root, check=True, capture_output=True, text=True)
    for name in filter(None, files.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    survivors = 0
    for invariant, file, text, instead, tests in MUTANTS[first:]:
        path = folder / CORE / file
        source = path.read_text()
        if source.count(text) != 1:
            sys.exit(f"{file}: the mutant of {invariant!r} is found {source.count(text)} times")
        path.write_text(source.replace(text, instead))
        built = subprocess.run([GO, "vet", "./dlpack/..."], cwd=folder, capture_output=True, text=True)
        if built.returncode != 0:
            sys.exit(f"{file}: the mutant of {invariant!r} does not compile:\n{built.stderr}{built.stdout}")
        command = [GO, "test", "-count=1", "-timeout=90s", "-run", tests, "./dlpack", "./dlpack/internal/core"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        found = done.returncode != 0 and "--- FAIL: " in done.stdout + done.stderr or "panic: " in done.stdout + done.stderr
        survivors += not found
        print(f"{'found   ' if found else 'SURVIVES'}  {invariant}", flush=True)
        path.write_text(source)
    return survivors


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])))
