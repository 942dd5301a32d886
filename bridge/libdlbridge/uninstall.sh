#!/bin/sh
# uninstall.sh PREFIX: removes what install.sh has put there, of any version. Folders of others stay.
set -eu
prefix=${1:?usage: uninstall.sh PREFIX}
rm -f "$prefix/lib/pkgconfig/dlbridge.pc" "$prefix"/lib/libdlbridge.so "$prefix"/lib/libdlbridge.so.[0-9]*
rm -rf "$prefix/include/dlbridge" "$prefix/lib/cmake/dlbridge"
