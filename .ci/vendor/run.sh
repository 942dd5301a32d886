#!/bin/sh
# run.sh WORK: checks that a module that vendors this one builds and runs from its vendor folder alone, and that its C files find the headers.
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
# The line of include/embed.go with which a C compiler finds the headers.
printf '#include <dlbridge.h>\nint32_t code = DLB_OK;\n' > program.c.txt
eval "$(sed -n 's|^//\t\(cc -I.*\) -c program.c$|\1 -x c -c program.c.txt -o program.o|p' "$root/include/embed.go")"
test -s program.o
# The line of README.md, with which the C code of another module finds them.
mkdir c
printf 'package main\n\n// #include <dlbridge.h>\n// #include <dlpack/dlpack.h>\nimport "C"\n\nfunc main() { println(C.DLB_OK) }\n' > c/main.go
(eval "$(sed -n 's|^ *`\(export CGO_CFLAGS=.*\)`\.$|\1|p' "$root/README.md")"; $go build -o with-headers ./c)
./with-headers
$go mod vendor
for header in include/dlbridge.h include/dlpack/dlpack.h; do
  test -f "vendor/github.com/dlbridge/dlbridge/$header"
done
$go build -mod=vendor -o program .
./program
