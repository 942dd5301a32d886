#!/bin/sh
# fuzz.sh FOLDER: runs every fuzz target for FUZZTIME. The programs, one for each package, are built in FOLDER.
#
# `go test -fuzz` sometimes fails with `context deadline exceeded` when the time limit expires. Such a run is repeated, at most
# twice. If an input makes the target fail, the text is different, and the failure is reported.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)

run() {
  for try in 1 2 3; do
    "$folder/$1.test" -test.run='^$' -test.fuzz="^$2\$" -test.fuzztime="$FUZZTIME" -test.fuzzminimizetime=100x \
      -test.fuzzcachedir="$folder/cache/$1" > "$folder/log" 2>&1 && break
    [ "$try" != 3 ] && grep -q '^ *context deadline exceeded$' "$folder/log" || { cat "$folder/log"; return 1; }
  done
  cat "$folder/log"
}

files=$(grep -rlE '^func Fuzz\w+\(' --include='*_test.go' bridge dlpack tens)
for package in $(dirname $files | sort -u); do
  name=$(echo "$package" | tr / -)
  "${GO:-go}" test -c -vet=off -fuzz=Fuzz -o "$folder/$name.test" "./$package"
  (
    cd "$package"
    targets=$("$folder/$name.test" -test.list='^Fuzz')
    for target in $targets; do
      echo "$target ./$package"
      run "$name" "$target"
    done
  )
done
