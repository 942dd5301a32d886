#!/bin/sh
# tensor.sh DIR: builds libdlbridge_tensor, shared and static, from tensor.c into DIR, with the symbolic links that linkers and
# loaders look for. It uses CC, AR, CFLAGS and LDFLAGS, and needs nothing else.
#
# Programs use the functions of dlbridge.h. The static library has no other global names. The shared library also exports the
# internal functions, only for libdlbridge.so, with a symbol version of exactly this release. It stays loaded after dlclose, because
# deleters of its tensors may be called later.
set -eu
dir=${1:?usage: tensor.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
cc=${CC:-cc} ar=${AR:-ar}
mkdir -p "$dir"
work=$(mktemp -d "$(cd "$dir" && pwd)/tensor.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Reports a missing tool here, before the compiler prints an error for each file.
printf '#include <stdlib.h>\nvoid *try(void) { return malloc(1); }\n' > "$work/try.c"
# shellcheck disable=SC2086 # each variable holds several words, here and below
$cc ${CFLAGS:-} -fPIC -shared "$work/try.c" -o "$work/try.so" ${LDFLAGS:-} || {
  echo "tensor.sh: \`$cc\` builds no shared library with CFLAGS='${CFLAGS:-}' and LDFLAGS='${LDFLAGS:-}': install a C compiler (on Debian:" \
    "apt install gcc libc6-dev), or name one by CC" >&2
  exit 1
}
$ar rcs "$work/try.a" "$work/try.c" || {
  echo "tensor.sh: \`$ar\` makes no archive: install binutils (on Debian: apt install binutils), or name an archiver by AR" >&2
  exit 1
}

number() { sed -n "s/^#define DLB_VERSION_$1 //p" "$root/include/dlbridge.h"; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)
soname=libdlbridge_tensor.so.$major
file=libdlbridge_tensor.so.$version

# Without sibling calls, a backtrace contains the function of dlbridge.h that the program called (ledger.c). Tools follow the frame
# pointers of stacks. Even if CFLAGS hide functions, the shared library must export the functions that its map names.
compile() {
  $cc -std=gnu11 -O2 -fPIC -fno-optimize-sibling-calls -Wall -Wextra ${CFLAGS:-} -fno-omit-frame-pointer -fvisibility=default -I"$root/include" \
    -I"$root/dlpack/internal/core" -I"$here/../capi" -I"$here/../internal/segment" "$@"
}
compile -c "$here/tensor.c" -o "$work/dlbridge_tensor.o"
$ar rcs "$work/libdlbridge_tensor.a" "$work/dlbridge_tensor.o"

sed "s/@MAJOR@/$major/; s/@VERSION@/$version/" "$here/libdlbridge_tensor.map.in" > "$work/map"
# With clang, only the program contains the functions of a sanitizer, so they are undefined here.
defs=-Wl,-z,defs
case "$cc ${CFLAGS:-} ${LDFLAGS:-}" in *-fsanitize*) defs= ;; esac
# shellcheck disable=SC2086
compile -shared -DCORE_API= -fno-semantic-interposition "$here/tensor.c" -o "$work/$file" ${LDFLAGS:-} -Wl,-soname,"$soname" \
  -Xlinker --version-script="$work/map" -Wl,-Bsymbolic $defs -Wl,-z,nodelete -lpthread -ldl -lm

mv -f "$work/libdlbridge_tensor.a" "$work/$file" "$dir"
ln -sf "$file" "$dir/$soname"
ln -sf "$soname" "$dir/libdlbridge_tensor.so"
