#!/bin/sh
# build.sh PYTHON WORK [ARCH]: builds the wheel of the Python package, which contains the Go library, into WORK/wheelhouse. ARCH is
# x86_64 or aarch64, by default the architecture of this machine. For another ARCH it needs binutils for that ARCH, such as the
# Debian package binutils-aarch64-linux-gnu. PYTHON must have the packages of requirements.txt. Everything is compiled for glibc
# 2.17. auditwheel strips the libraries and names the wheel after the glibc that it needs. It fails if the wheel needs a library that
# some Linux systems lack.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${1:?usage: build.sh PYTHON WORK [ARCH]}
work=${2:?usage: build.sh PYTHON WORK [ARCH]}
case $python in /*) ;; *) python=$PWD/$python ;; esac
arch=${3:-$(uname -m)}
case $(uname -s)/$arch in
Linux/x86_64) goarch=amd64 ;;
Linux/aarch64) goarch=arm64 ;;
*)
  echo "build.sh: wheels are built on Linux, for x86_64 and aarch64, not on $(uname -s) for $arch; \`pip install bridge/python\`" \
    "builds the package for this machine" >&2
  exit 1
  ;;
esac
mkdir -p "$work"
work=$(cd "$work" && pwd)
if [ "$arch" != "$(uname -m)" ]; then
  mkdir -p "$work/bin"
  for tool in ar strip; do
    if ! found=$(command -v "$arch-linux-gnu-$tool"); then
      echo "build.sh: $arch-linux-gnu-$tool is not installed (on Debian: apt install binutils-$(echo "$arch" | tr _ -)-linux-gnu)" >&2
      exit 1
    fi
    ln -sf "$found" "$work/bin/$tool"
  done
  PATH=$work/bin:$PATH
fi
rm -rf "$work/build" "$work/egg" "$work/linux"
rm -f "$work"/wheelhouse/dlbridge-*_"$arch".whl
mkdir "$work/egg"
printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' "$work/build" "$work/egg" > "$work/setup.cfg"

ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
WHEEL_PYTHON=$python CC="sh $here/cc.sh"
LDSHARED="$CC -shared" # Python's own may have paths of this machine
WHEEL_ARCH=$arch _PYTHON_HOST_PLATFORM=linux-$arch CGO_ENABLED=1 GOARCH=$goarch
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR WHEEL_PYTHON CC LDSHARED WHEEL_ARCH _PYTHON_HOST_PLATFORM CGO_ENABLED GOARCH
DIST_EXTRA_CONFIG=$work/setup.cfg "$python" -m pip --disable-pip-version-check -q wheel --no-build-isolation --no-deps \
  --wheel-dir "$work/linux" "$root/bridge/python"
"$python" -m zipfile -e "$work"/linux/dlbridge-*.whl "$work/linux/content"
paths=$(readelf -d "$work"/linux/content/dlbridge/*.so "$work"/linux/content/dlbridge/_lib/* | sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p' | grep -vx '\$ORIGIN' || true)
if [ -n "$paths" ]; then
  echo "build.sh: libraries of the wheel are looked for in $paths" >&2
  exit 1
fi
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --plat auto --only-plat --strip \
  --wheel-dir "$work/wheelhouse" "$work"/linux/dlbridge-*.whl
"$python" -m auditwheel show "$work"/wheelhouse/dlbridge-*_"$arch".whl
if ! du -b "$work"/wheelhouse/dlbridge-*manylinux_2_17_"$arch".whl; then
  echo "build.sh: the wheel needs a later glibc than 2.17" >&2
  exit 1
fi
