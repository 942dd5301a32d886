#!/bin/sh
# sources.sh [PART]: prints the C files that need no Go, one a line.
#
#   without PART   all, of which libdlbridge_tensor is made
#   core           those of dlpack/internal/core
#   capi           those of bridge/capi and bridge/internal/segment
#   extension      those that the Python extension is built with: core, segment, and six of bridge/capi
#
# Files that include _cgo_export.h, and those that are named below, are left out. If another file calls a function of a file that
# is left out, linking libdlbridge_tensor.so fails.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
for file in "$root"/dlpack/internal/core/*.c "$root"/bridge/capi/*.c; do
  case ${1:-}:$file in
  :* | core:*/core/*.c | capi:*/capi/*.c | extension:*/core/*.c) ;;
  extension:*/capi/argument.c | extension:*/capi/dtype.c | extension:*/capi/error.c) ;;
  extension:*/capi/print.c | extension:*/capi/hold.c | extension:*/capi/tensor.c) ;;
  *) continue ;;
  esac
  case $file in
  */core/slot.c | */core/wake.c) continue ;; # each Go runtime has slots of its own, and is woken by itself
  */capi/tens_message.c) continue ;; # the messages that Go decodes
  esac
  grep -q '^#include "_cgo_export.h"' "$file" || echo "$file"
done
if [ "${1:-}" != core ]; then
  for file in "$root"/bridge/internal/segment/*.c; do echo "$file"; done
fi
