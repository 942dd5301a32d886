#!/bin/sh
# cc.sh ARGUMENT...: a C compiler for programs that run with glibc 2.17 or later on WHEEL_ARCH. The glibc of this machine does not
# matter. The compiler is the clang of the Python package ziglang; WHEEL_PYTHON must have the package.
# By default, zig adds checks for undefined behaviour, and links all of its runtime into a library. The options below prevent both.
set -eu
case " $* " in *' -shared '*) set -- "$@" -Wl,--gc-sections ;; esac
exec "${WHEEL_PYTHON:?cc.sh: WHEEL_PYTHON must name a Python with ziglang}" -m ziglang cc -target "${WHEEL_ARCH:?}-linux-gnu.2.17" \
  -fno-sanitize=undefined "$@"
