#!/bin/sh
# cc.sh ARGUMENT...: a C compiler for programs that run with glibc 2.17 or later on WHEEL_ARCH, whatever the glibc of this
# machine. It is the clang of the Python package ziglang; WHEEL_PYTHON is a Python that has the package.
# zig adds checks for undefined behaviour unless it is told not to, and all of its runtime to a library unless the linker drops
# what is not used.
set -eu
case " $* " in *' -shared '*) set -- "$@" -Wl,--gc-sections ;; esac
exec "${WHEEL_PYTHON:?cc.sh: WHEEL_PYTHON must name a Python with ziglang}" -m ziglang cc -target "${WHEEL_ARCH:?}-linux-gnu.2.17" \
  -fno-sanitize=undefined "$@"
