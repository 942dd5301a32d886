#!/bin/sh
# build.sh WORK HEADER: builds and tests a copy of the Go library in which HEADER replaces our dlpack.h.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:?usage: build.sh WORK HEADER}
header=${2:?usage: build.sh WORK HEADER}
rm -rf "$work"
mkdir -p "$work"
for part in Makefile go.mod go.sum bridge dlpack examples include tens; do
  cp -R "$root/$part" "$work"
done
cp "$header" "$work/include/dlpack/dlpack.h"
cd "$work"
${GO:-go} build ./...
${GO:-go} test ./dlpack/...
