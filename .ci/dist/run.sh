#!/bin/sh
# run.sh PYTHON WORK: makes the source distribution of the Python package, builds a wheel from it alone, and uses the
# installed wheel. PYTHON must have setuptools.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${1:?usage: run.sh PYTHON WORK}
work=${2:?usage: run.sh PYTHON WORK}
case $python in /*) ;; *) python=$PWD/$python ;; esac
rm -rf "$work"
mkdir -p "$work/egg" "$work/source"
work=$(cd "$work" && pwd)
printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' "$work/build" "$work/egg" > "$work/setup.cfg"

# setup.py writes a copy of the sources beside itself, and removes it. Other checks that run at the same time would find that copy.
# So setup.py runs in a copy of the checkout.
mkdir "$work/checkout"
git -C "$root" ls-files -z --cached --others --exclude-standard | tar -C "$root" --null -T - -cf - | tar -C "$work/checkout" -xf -
cd "$work/checkout/bridge/python"
DIST_EXTRA_CONFIG="$work/setup.cfg" "$python" setup.py -q sdist --dist-dir "$work"

# From here on, nothing uses the checkout.
cd "$work/source"
tar xzf "$work"/dlbridge-*.tar.gz --strip-components=1
"$python" -m pip --disable-pip-version-check -q wheel --no-build-isolation --no-deps --wheel-dir "$work" .
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check -q install --no-index "$work"/dlbridge-*.whl
cd "$work"
"$work/venv/bin/python" -I - << 'END'
import array
import importlib.metadata

import dlbridge.tens

x = dlbridge.from_buffer(array.array("f", [1, 2, 3, 4]), "float32", (2, 2))
(y,) = dlbridge.tens.decode(dlbridge.tens.decode_frames(dlbridge.tens.encode_frames(dlbridge.tens.encode([x])))).tensors
assert (y.shape, y.dtype, bytes(memoryview(y))) == ((2, 2), "float32", bytes(memoryview(x)))
files = {file.name for file in importlib.metadata.files("dlbridge")}
assert {"LICENSE", "py.typed", "libdlbridge.so"} <= files, files
END
ls "$work"/dlbridge-*
