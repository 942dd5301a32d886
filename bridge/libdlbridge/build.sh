#!/bin/sh
# build.sh DIR: builds the shared library into DIR, with the links that linkers and loaders look for.
# Its SONAME has the major version of dlbridge.h, and only dlb_* is exported. GOFLAGS and GO are heeded.
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
cd "$here"
${GO:-go} build -buildmode=c-shared -trimpath \
  -ldflags "-extldflags '-Wl,-soname,$soname -Xlinker \"--version-script=$here/libdlbridge.map\"'" -o "$dir/$file" .
rm -f "$dir/${file%.*}.h" # cgo's header of the entry points behind dlbridge.h
ln -sf "$file" "$dir/$soname"
ln -sf "$soname" "$dir/libdlbridge.so"
