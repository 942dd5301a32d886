#!/bin/sh
# build.sh PYTHON WORK: builds the wheel of the Python package, with the Go library inside, into WORK/wheelhouse. PYTHON has the
# packages of requirements.txt. Everything is compiled for glibc 2.17. auditwheel fails if the wheel needs a later one, or a
# library that not every Linux has; it strips the libraries and names the wheel by what it needs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${1:?usage: build.sh PYTHON WORK}
work=${2:?usage: build.sh PYTHON WORK}
case $python in /*) ;; *) python=$PWD/$python ;; esac
if [ "$(uname -sm)" != 'Linux x86_64' ]; then
  echo "build.sh: wheels are built on Linux on x86_64, not on $(uname -sm); \`pip install bridge/python\` builds the package here" >&2
  exit 1
fi
mkdir -p "$work"
work=$(cd "$work" && pwd)
rm -rf "$work/build" "$work/egg" "$work/linux" "$work/wheelhouse"
mkdir "$work/egg"
printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' "$work/build" "$work/egg" > "$work/setup.cfg"

ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
WHEEL_PYTHON=$python CC="sh $here/cc.sh"
LDSHARED="$CC -shared" # Python's own may have paths of this machine
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR WHEEL_PYTHON CC LDSHARED
DIST_EXTRA_CONFIG=$work/setup.cfg "$python" -m pip --disable-pip-version-check -q wheel --no-build-isolation --no-deps \
  --wheel-dir "$work/linux" "$root/bridge/python"
"$python" -m zipfile -e "$work"/linux/dlbridge-*.whl "$work/linux/content"
paths=$(readelf -d "$work"/linux/content/dlbridge/*.so "$work"/linux/content/dlbridge/_lib/* | sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p' | grep -vx '\$ORIGIN' || true)
if [ -n "$paths" ]; then
  echo "build.sh: libraries of the wheel are looked for in $paths" >&2
  exit 1
fi
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --plat manylinux_2_17_x86_64 --only-plat --strip \
  --wheel-dir "$work/wheelhouse" "$work"/linux/dlbridge-*.whl
"$python" -m auditwheel show "$work"/wheelhouse/dlbridge-*.whl
du -b "$work"/wheelhouse/dlbridge-*.whl
