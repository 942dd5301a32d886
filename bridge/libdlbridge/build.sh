#!/bin/sh
# build.sh DIR: builds two shared libraries into DIR: libdlbridge_tensor, and libdlbridge, which contains Go. It also makes the symbolic
# links that linkers and loaders look for. The SONAMEs have the major version of dlbridge.h. It uses GO, GOFLAGS, CC, AR, CFLAGS and
# LDFLAGS.
#
# libdlbridge.so does not contain a copy of the library without Go. It is linked to libdlbridge_tensor.so, which the loader finds in
# the same folder. So a process that loads both, in any order and any scope, has one copy, with one set of counters, and each library
# accepts the tensors of the other. The loader ensures this by the SONAME. (A program has two copies only if it opens two different
# files of libdlbridge_tensor.so by their paths, as with any library.) Therefore the tag dlbridge_shared leaves the C files of that
# library out of Go's build. The empty CORE_API lets Go's C files call the functions of libdlbridge_tensor.so.
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
(cd "$here" && ${GO:-go} list . > /dev/null) || {
  echo "build.sh: \`${GO:-go}\` cannot build this module: install Go 1.26 or later (https://go.dev/dl), or name it by GO; it needs cgo" \
    "(CGO_ENABLED=1)" >&2
  exit 1
}
sh "$here/tensor.sh" "$dir"
dir=$(cd "$dir" && pwd)
cd "$here"
CGO_CFLAGS="${CGO_CFLAGS--g -O2} ${CFLAGS:-} -DCORE_API=" CGO_LDFLAGS="'-L$dir' ${CGO_LDFLAGS:-} ${LDFLAGS:-} -ldlbridge_tensor" \
  ${GO:-go} build -buildmode=c-shared -trimpath -tags dlbridge_shared \
  -ldflags "-extldflags '-Wl,-soname,$soname -Wl,-rpath,\$ORIGIN -Xlinker \"--version-script=$here/libdlbridge.map\"'" \
  -o "$dir/$file" .
rm -f "$dir/${file%.*}.h" # cgo's header; programs use dlbridge.h
ln -sf "$file" "$dir/$soname"
ln -sf "$soname" "$dir/libdlbridge.so"
