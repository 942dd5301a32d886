#!/bin/sh
# without_go.sh OBJECT [PART]: compiles the library without Go, or a part of it (sources.sh), into one object. CC and CFLAGS are
# heeded.
# Without sibling calls, a backtrace contains the function of dlbridge.h that the program has called (ledger.c). Tools walk its stacks by their frame pointers.
set -eu
object=${1:?usage: without_go.sh OBJECT [PART]}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$object.parts
rm -rf "$work"
mkdir -p "$work"
sh "$here/sources.sh" "${2:-}" > "$work/sources"
while IFS= read -r file; do
  # shellcheck disable=SC2086 # CFLAGS are words
  ${CC:-cc} -std=gnu11 -O2 -fPIC -fno-optimize-sibling-calls -fno-omit-frame-pointer -Wall -Wextra ${CFLAGS:-} -I"$root/include" -I"$root/dlpack/internal/core" \
    -I"$root/bridge/internal/segment" \
    -c "$file" -o "$work/$(basename "$file" .c).o"
done < "$work/sources"
${CC:-cc} -r -nostdlib -o "$object" "$work"/*.o
rm -r "$work"
