#!/bin/sh
# uninstall.sh PREFIX: removes what install.sh has put there, of any version. Folders of others stay.
set -eu
prefix=${1:?usage: uninstall.sh PREFIX}
for library in dlbridge dlbridge_tensor; do
  rm -f "$prefix/lib/pkgconfig/$library.pc" "$prefix/lib/lib$library.so" "$prefix/lib/lib$library".so.[0-9]*
done
rm -f "$prefix/lib/libdlbridge_tensor.a"
rm -rf "$prefix/share/dlbridge" "$prefix/include/dlbridge" "$prefix/lib/cmake/dlbridge"
