#!/bin/sh
# sources.sh [PART]: prints the C files of dlbridge's half without Go, one a line: those of the core and of package capi,
# except what only Go uses, and those of shared memory; PART is core or capi for those of one, capi with shared memory, or extension
# for those that the Python extension has: the core, of capi the text of tensors, and shared memory. libdlbridge_tensor has all. A new
# file belongs to the half unless it is named here; if it needs another file, linking libdlbridge_tensor.so fails.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
for file in "$root"/dlpack/internal/core/*.c "$root"/bridge/capi/*.c; do
  case ${1:-}:$file in
  :* | core:*/core/*.c | capi:*/capi/*.c | extension:*/core/*.c) ;;
  extension:*/capi/argument.c | extension:*/capi/dtype.c | extension:*/capi/format.c | extension:*/capi/tensor.c) ;;
  *) continue ;;
  esac
  case $file in
  */core/slot.c | */core/wake.c) continue ;; # each Go runtime has slots of its own, and is woken by itself
  */capi/elements.c | */capi/tens_message.c) continue ;; # of messages and elements
  esac
  grep -q '^#include "_cgo_export.h"' "$file" || echo "$file"
done
if [ "${1:-}" != core ]; then
  for file in "$root"/bridge/internal/segment/*.c; do echo "$file"; done
fi
