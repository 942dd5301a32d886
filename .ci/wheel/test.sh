#!/bin/sh
# test.sh WHEELHOUSE WORK PYTHON...: installs the wheel and NumPy in a new environment of each Python, and runs check.py there. It
# runs from folders outside of the checkout, with no environment variable except a PATH without tools, so that neither Go nor a compiler can be
# found. Then it runs subinterpreters.py, because subinterpreters differ between versions of Python.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
house=$(cd "${1:?usage: test.sh WHEELHOUSE WORK PYTHON...}" && pwd)
work=${2:?usage: test.sh WHEELHOUSE WORK PYTHON...}
shift 2
: "${1:?usage: test.sh WHEELHOUSE WORK PYTHON...}"
rm -rf "$work"
mkdir -p "$work/elsewhere"
work=$(cd "$work" && pwd)
grep '^numpy==' "$here/../../bridge/python/requirements-test.txt" > "$work/numpy.txt"
for python; do
  python=$(sh "$here/../python.sh" "$python")
  version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
  "$python" -m venv "$work/$version"
  installed=$work/$version/bin/python
  "$installed" -m pip --disable-pip-version-check -q install --only-binary :all: -r "$work/numpy.txt"
  "$installed" -m pip --disable-pip-version-check -q install --no-index "$house"/dlbridge-*_"$(uname -m)".whl
  for folder in "$work/elsewhere" /; do
    (cd "$folder" && env -i PATH=/nonexistent "$installed" -I "$here/check.py")
  done
  script=$here/../../bridge/python/tests/subinterpreters.py
  (cd "$work/elsewhere" && env -i PATH=/nonexistent "$installed" -I "$script" > /dev/null)
  echo "wheel with Python $version: ok"
done
