#!/bin/sh
# tensor.sh DIR: builds libdlbridge_tensor into DIR, shared and static: the library without Go, which needs a C compiler and its
# binutils. CC and CFLAGS are heeded. Prints the names of the internal functions that libdlbridge.so calls; build.sh
# needs them.
#
# Programs are meant to use the functions of dlbridge.h. The static library has no other global name. The shared library also
# exports the internal functions, for libdlbridge.so alone: with the prefix dlb_private_, and a symbol version of exactly this
# release. The shared library stays loaded after dlclose, because deleters of its tensors may be called later.
set -eu
dir=${1:?usage: tensor.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
number() { sed -n "s/^#define DLB_VERSION_$1 //p" "$here/../../include/dlbridge.h"; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)
soname=libdlbridge_tensor.so.$major

mkdir -p "$dir"
work=$(cd "$dir" && pwd)/tensor.work
rm -rf "$work"
mkdir "$work"
CFLAGS="${CFLAGS:-} -DCORE_API= -DCAPI= -fno-semantic-interposition" sh "$here/without_go.sh" "$work/whole.o"
private=$(nm --defined-only --extern-only "$work/whole.o" | awk '$3 !~ /^dlb_/ { print $3 }')

echo "$private" | sed 's/.*/& dlb_private_&/' > "$work/names"
objcopy --redefine-syms="$work/names" "$work/whole.o" "$work/shared.o"
printf 'DLBRIDGE_%s { global: dlb_*; local: *; };\nDLBRIDGE_PRIVATE_%s { global: dlb_private_*; };\n' "$major" "$version" > "$work/map"
# shellcheck disable=SC2086 # CFLAGS are words
${CC:-cc} -shared ${CFLAGS:-} "$work/shared.o" -Wl,-soname,"$soname" -Wl,--version-script="$work/map" \
  -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -lpthread -ldl -lm -o "$dir/libdlbridge_tensor.so.$version"
ln -sf "libdlbridge_tensor.so.$version" "$dir/$soname"
ln -sf "$soname" "$dir/libdlbridge_tensor.so"

objcopy --wildcard --keep-global-symbol='dlb_*' "$work/whole.o" "$work/dlbridge_tensor.o"
rm -f "$dir/libdlbridge_tensor.a"
ar rcs "$dir/libdlbridge_tensor.a" "$work/dlbridge_tensor.o"
rm -r "$work"
echo "$private"
