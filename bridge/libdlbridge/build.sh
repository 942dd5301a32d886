#!/bin/sh
# build.sh DIR: builds the shared libraries libdlbridge_tensor and libdlbridge, which contains Go, into DIR, with the symbolic
# links that linkers and loaders look for. Their SONAMEs have the major version of dlbridge.h. GOFLAGS, GO, CC and CFLAGS are
# heeded.
#
# The library without Go is the C files that need none (sources.sh). libdlbridge.so has no copy of it: it is linked to
# libdlbridge_tensor.so, which the loader finds beside it. So a process that loads both, in any order and any scope, has one
# copy: one set of counters, and tensors of either library are tensors of the other. The loader guarantees this by the SONAME,
# without code of ours. (Only a program that opens two different files of libdlbridge_tensor.so by their paths has two copies,
# as with any library.) For this its C files are left out of Go's build (the overlay), and Go's files call
# its functions by their names in libdlbridge_tensor.so, dlb_* or dlb_private_*.
set -eu
dir=${1:?usage: build.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
number() { sed -n "s/^#define DLB_VERSION_$1 //p" "$here/../../include/dlbridge.h"; }
soname=libdlbridge.so.$(number MAJOR)
file=$soname.$(number MINOR).$(number PATCH)

case $(uname -s) in
Linux) ;;
*) echo "build.sh: the shared library is built for Linux; elsewhere import package capi from a library of your own" >&2; exit 1 ;;
esac

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
names=$(sh "$here/tensor.sh" "$dir")
renames=
for name in $names; do
  renames="$renames -D$name=dlb_private_$name"
done
overlay=$dir/overlay.json
trap 'rm -f "$overlay"' EXIT
sh "$here/sources.sh" | sed 's/.*/"&": "",/' | { echo '{"Replace": {'; sed '$s/,$//'; echo '}}'; } > "$overlay"
cd "$here"
CGO_CFLAGS="${CGO_CFLAGS--g -O2} -DCORE_API= -DCAPI=$renames" CGO_LDFLAGS="${CGO_LDFLAGS:-} '-L$dir' -ldlbridge_tensor" \
  ${GO:-go} build -buildmode=c-shared -trimpath -overlay="$overlay" \
  -ldflags "-extldflags '-Wl,-soname,$soname -Wl,-rpath,\$ORIGIN -Xlinker \"--version-script=$here/libdlbridge.map\"'" \
  -o "$dir/$file" .
rm -f "$dir/${file%.*}.h" # cgo's header of the entry points behind dlbridge.h
ln -sf "$file" "$dir/$soname"
ln -sf "$soname" "$dir/libdlbridge.so"

# A C file of the library without Go that Go has compiled too would be a second copy of its state.
twice=$(nm --defined-only "$dir/$file" | awk '$3 ~ /^dlb_private_/ { print $3 }')
if [ -n "$twice" ]; then
  echo "build.sh: libdlbridge.so has its own copies of functions of libdlbridge_tensor.so: $twice" >&2
  exit 1
fi
