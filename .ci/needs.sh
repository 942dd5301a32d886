#!/bin/sh
# needs.sh prints one line with the tools that a checkout needs and the machine lacks. The variables GO, CC and PYTHON name the tools.
# PYTHON_MINOR is the lowest minor version of Python 3.
set -u
go=${GO:-go} python=${PYTHON:-python3} least=${PYTHON_MINOR:-11}
missing=

# In this module, Go 1.21 and later download the version that go.mod requires, or fail if downloads are disabled.
version=$("$go" env GOVERSION 2> /dev/null)
minor=$(echo "$version" | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
[ "${minor:-0}" -ge 26 ] || missing="$missing; Go 1.26 or later (https://go.dev/dl)"

cc=${CC:-$("$go" env CC 2> /dev/null)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' > "$folder/program.c"
# shellcheck disable=SC2086 # CC may have options
${cc:-cc} "$folder/program.c" -o "$folder/program" > /dev/null 2>&1 ||
  missing="$missing; a C compiler (on Debian: apt install gcc libc6-dev)"

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, int(sys.argv[1])))' "$least" 2> /dev/null; then
  missing="$missing; Python 3.$least or later, which $python is not"
else
  "$python" -c 'import ensurepip, venv' 2> /dev/null || missing="$missing; Python's venv (on Debian: apt install python3-venv)"
  "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    missing="$missing; the headers of Python (on Debian: apt install python3-dev)"
fi

if [ -n "$missing" ]; then
  echo "missing:${missing#;}" >&2
  exit 1
fi
