#!/bin/sh
# run.sh WORK: a module that vendors this one builds and runs with nothing but its vendor folder.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:?usage: run.sh WORK}
go=${GO:-go}
rm -rf "$work"
mkdir -p "$work"
cp "$root/.ci/vendor/main.go.txt" "$work/main.go"
cd "$work"
$go mod init example.com/vendoring
$go mod edit -require=github.com/dlbridge/dlbridge@v0.0.0 -replace=github.com/dlbridge/dlbridge@v0.0.0="$root"
$go mod tidy
$go mod vendor
for header in include/dlbridge.h include/dlpack/dlpack.h; do
  test -f "vendor/github.com/dlbridge/dlbridge/$header"
done
$go build -mod=vendor -o program .
./program
