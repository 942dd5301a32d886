"""amalgamate.py DIR: writes libdlbridge_tensor as one C file, dlbridge_tensor.c, into DIR, together with the public headers and the license.

The file is tensor.c with each include replaced by the included file, and without the comment that says how to build tensor.c. A header with a
guard appears once, at its first include. So its first include must not be under a condition that is false where another file needs it.
"""

import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = [ROOT / name for name in ("dlpack/internal/core", "bridge/capi", "bridge/internal/segment")]
PUBLIC = ["dlbridge.h", "dlbridge.hpp", "dlpack/dlpack.h"]

HEAD = """\
/* dlbridge_tensor.c: libdlbridge_tensor {version} of dlbridge, whose functions dlbridge.h declares. Compile it with
 * `cc -c dlbridge_tensor.c`, and link programs with -lpthread -ldl -lm. Each program then has its own library, as with
 * libdlbridge_tensor.a: see "Libraries" in dlbridge.h. `make amalgamation` writes this file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
"""


def included(file: pathlib.Path, name: str) -> pathlib.Path | None:
    """Returns the file of this repository that an include in `file` names, or None for a system header or a public header."""
    places = [folder / name for folder in (file.parent, *FOLDERS)]
    return next((place.resolve() for place in places if place.is_file()), None)


def expanded(file: pathlib.Path, seen: set[pathlib.Path]) -> str:
    text = [f"/* ==== {file.relative_to(ROOT)} */\n"]
    for line in file.read_text().splitlines(keepends=True):
        match = re.match(r'#include ["<](.+)[">]', line)
        found = included(file, match[1]) if match else None
        if match and match[1] in PUBLIC:
            text.append(f'#include "{match[1]}"\n')
        elif found is None and not line.startswith("//go:build "):
            text.append(line)
        elif found is not None and found not in seen:
            if re.search(r"^#ifndef \w+_H_?$", found.read_text(), re.M):
                seen.add(found)
            text.append(expanded(found, seen))
    return "".join(text)


def main(out: pathlib.Path) -> None:
    (out / "dlpack").mkdir(parents=True, exist_ok=True)
    numbers = re.findall(r"^#define DLB_VERSION_\w+ (\d+)$", (ROOT / "include/dlbridge.h").read_text(), re.M)
    head = HEAD.format(version=".".join(numbers))
    text = re.sub(r"/\* tensor\.c: .*?\*/\n", "", expanded(HERE / "tensor.c", set()), count=1, flags=re.S)
    (out / "dlbridge_tensor.c").write_text(head + text)
    for header in PUBLIC:
        shutil.copyfile(ROOT / "include" / header, out / header)
    shutil.copyfile(ROOT / "LICENSE", out / "LICENSE")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
