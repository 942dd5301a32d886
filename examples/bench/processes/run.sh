#!/bin/sh
# Times how tensors reach other processes, and writes README.md beside this file. PYTHON has dlbridge, NumPy, PyTorch and Ray.
set -eu
cd "$(dirname "$0")"
page=$(mktemp)
trap 'rm -f "$page"' EXIT
cat > "$page" << 'END_OF_HEAD'
# Tensors for other processes

`make bench-processes` writes this page. It needs the environment of `make test-peers`, and 12 GiB of free memory. All paths take turns.
Each time is the median of single transfers. Compare times only within this page: other work of the machine changes them in each run. Rows
in bold are paths of dlbridge; the others are its peers.

END_OF_HEAD
"${PYTHON:-python3}" main.py >> "$page"
sed -i -e '$ { /^$/ d }' "$page"
cat "$page" > README.md
