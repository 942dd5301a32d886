#!/bin/sh
# sources.sh [PART]: prints the C files of dlbridge's half without Go, one a line: those of the core and of package capi,
# except what only Go uses; PART is core or capi for those of one. It is the one list: libdlbridge_tensor has all, and the
# Python extension, which does not use the functions of dlbridge.h, the core. A new file belongs to the half unless it is
# named here; if it needs another file, linking libdlbridge_tensor.so fails.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
for file in "$root"/dlpack/internal/core/*.c "$root"/bridge/capi/*.c; do
  case $file in
  *"${1:+/$1/}"*) ;;
  *) continue ;;
  esac
  case $file in
  */core/slot.c | */core/wake.c) continue ;; # each Go runtime has slots of its own, and is woken by itself
  */capi/elements.c | */capi/tens_message.c) continue ;; # of messages and elements
  esac
  grep -q '^#include "_cgo_export.h"' "$file" || echo "$file"
done
