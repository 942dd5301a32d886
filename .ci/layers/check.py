"""Checks which packages of the repository each Go package imports: downwards only, as .github/CONTRIBUTING.md draws them.

A package that is not in the table, and an import that the table does not allow, are errors. Tests may import anything.
"""

import json
import os
import re
import subprocess
import sys

GO = os.environ.get("GO", "go")
FORMAT = {"dlpack", "dlpack/layout", "bridge/elements", "bridge/internal/errtext", "bridge/internal/payload"}
ALLOWED = {
    "include": set(),
    "include/dlpack": set(),
    "dlpack/background": set(),
    "dlpack/internal/extent": set(),
    "dlpack/layout": {"dlpack/internal/extent"},
    "dlpack/internal/core": {"include/dlpack", "dlpack/background", "dlpack/internal/extent"},
    "dlpack": {"dlpack/internal/core", "dlpack/internal/extent", "dlpack/layout"},
    "dlpack/dlpacktest": {"dlpack", "include/dlpack"},
    "dlpack/dlpacktest/amplification": set(),
    "dlpack/dlpacktest/testmode": set(),
    "dlpack/dlpacktest/vectors": set(),
    "dlpack/dlpacktest/viewtest": {"dlpack/layout"},
    "tens/strictjson": set(),
    "tens": {"tens/strictjson"},
    "bridge/internal/errtext": set(),
    "bridge/elements": {"bridge/internal/errtext", "dlpack/layout"},
    "bridge/internal/payload": {"dlpack", "dlpack/layout", "bridge/elements", "bridge/internal/errtext"},
    "bridge": FORMAT | {"tens"},
    "bridge/decthings": FORMAT | {"tens/strictjson"},
    "bridge/tensorflow": FORMAT,
    "bridge/nervana": {"dlpack", "dlpack/layout"},
    "bridge/gorgonia": {"dlpack", "dlpack/layout"},
    "bridge/tvmffi": {"dlpack", "dlpack/layout", "dlpack/background", "include/dlpack"},
    "bridge/zeromq": {"dlpack", "dlpack/background", "tens", "bridge"},
    "bridge/internal/segment": {"dlpack", "include/dlpack"},
    "bridge/shm": {"bridge", "bridge/internal/segment", "dlpack", "dlpack/layout", "include/dlpack", "tens"},
    "bridge/capi": FORMAT | {"include", "include/dlpack", "tens", "bridge", "bridge/decthings", "bridge/tensorflow",
                           "bridge/internal/segment"},
    "bridge/libdlbridge": {"bridge/capi"},
}


def main() -> int:
    listed = subprocess.run([GO, "list", "-json=ImportPath,Imports,Module", "./..."], check=True, capture_output=True, text=True)
    decoder, text, failed = json.JSONDecoder(), listed.stdout.strip(), False
    seen = set()
    while text:
        package, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        root = package["Module"]["Path"] + "/"
        name = package["ImportPath"].removeprefix(root)
        if name.startswith("examples/"):  # programs, which nothing can import
            continue
        if name == "bridge/internal/formats" or name not in ALLOWED and re.search(r"(^|/)(\w+)/\2test$", name):
            continue  # for tests, such as NAME/NAMEtest: may import anything, and no row lets a package import it
        seen.add(name)
        ours = {path.removeprefix(root) for path in package.get("Imports", []) if path.startswith(root)}
        if name not in ALLOWED:
            print(f"{name} is not in the table of {sys.argv[0]}", file=sys.stderr)
            failed = True
        for path in sorted(ours - ALLOWED.get(name, ours)):
            print(f"{name} must not import {path}", file=sys.stderr)
            failed = True
    for name in sorted(ALLOWED.keys() - seen):
        print(f"{name} is in the table of {sys.argv[0]}, and does not exist", file=sys.stderr)
        failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
