#!/bin/sh
# run.sh: builds dlbridge and its peers under build/bench, times all of them, and prints lines of `name value unit`. It
# writes the report to README.md and times.svg beside this file.
#
#   BENCH_BATCHES  number of batches of each path in each of 20 turns (default 100); fewer are faster and noisier
#   BENCH_TORCH=1  installs PyTorch, a download of gigabytes, and times it; without it PyTorch is skipped
set -eu
cd "$(dirname "$0")"
here=$PWD
root=$(cd ../.. && pwd)
out=$root/build/bench
batches=${BENCH_BATCHES:-100}
venv=$out/venv
mkdir -p "$out/python" "$out/modules"
export CARGO_TARGET_DIR="$out/cargo" PIP_DISABLE_PIP_VERSION_CHECK=1
say() { echo "bench: $*" >&2; }

say "building the Go paths"
${GO:-go} build -o "$out/bench" .
${GO:-go} build -o "$out/report" ./report
${GO:-go} build -buildmode=c-shared -o "$out/libexporter.so" ./exporter
sh "$root/bridge/libdlbridge/tensor.sh" "$out/lib" # the library that make install-tensor installs
${CC:-cc} -std=gnu11 -O2 -fPIC -shared -fvisibility=hidden -I"$root/include" -o "$out/libviews.so" views/views.c \
  "$out/lib/libdlbridge_tensor.a" -lpthread -lm -ldl

say "building the Python package and its environment"
if [ ! -x "$venv/bin/python" ]; then ${PYTHON:-python3} -m venv "$venv"; fi
python=$venv/bin/python
$python -m pip install -q -r python/requirements.txt
if [ "${BENCH_TORCH:-}" = 1 ]; then $python -m pip install -q -r python/requirements-torch.txt; fi
printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' "$out/python" "$out/python" >"$out/python/setup.cfg"
DIST_EXTRA_CONFIG="$out/python/setup.cfg" $python -m pip install -q --no-build-isolation --no-deps --force-reinstall \
  "$root/bridge/python"

say "building the Python peers"
include=-I$($python -c 'import sysconfig; print(sysconfig.get_path("include"))')
suffix=$($python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
${CC:-cc} -std=gnu11 -O2 -DNDEBUG -fPIC -shared -fvisibility=hidden "$include" -I"$root/include" \
  -o "$out/modules/floor$suffix" python/floor.c
nanobind=$($python -c 'import nanobind, pathlib; print(pathlib.Path(nanobind.__file__).parent)')
# These are the flags that nanobind's src/nb_combined.cpp recommends.
${CXX:-c++} -std=c++17 -O3 -DNDEBUG -DNB_COMPACT_ASSERTIONS -fPIC -shared -fvisibility=hidden -fno-strict-aliasing \
  -ffunction-sections -fdata-sections -Wl,--gc-sections "$include" -I"$nanobind/include" -I"$nanobind/ext/robin_map/include" \
  -o "$out/modules/nanobind_bench$suffix" python/nanobind_bench.cpp "$nanobind/src/nb_combined.cpp"

${CXX:-c++} -std=c++17 -O2 -fPIC -shared -fvisibility=hidden -I"$($python -m tvm_ffi.config --includedir)" \
  -o "$out/kernels.so" python/kernels.cc
DLBRIDGE_TVM_FFI=$($python -m tvm_ffi.config --libdir)
export DLBRIDGE_TVM_FFI

if [ "${BENCH_TORCH:-}" = 1 ]; then
  say "building the libtorch paths"
  PYTHON=$python sh "$root/examples/libtorch/run.sh" test -c -o "$out/libtorch.test" ./aten
fi

rust=
if command -v cargo >/dev/null; then
  say "building the Rust peers"
  (cd dlpark && cargo build -q --locked --release)
  cp "$CARGO_TARGET_DIR/release/libdlpark_bench.so" "$out/libdlpark.so"
  rust=$out/libdlpark.so
  (cd dlpark && cargo build -q --locked --release --features python)
  cp "$CARGO_TARGET_DIR/release/libdlpark_bench.so" "$out/modules/dlpark_bench.so"
  (cd pyo3_dlpack && cargo build -q --locked --release)
  cp "$CARGO_TARGET_DIR/release/libpyo3_dlpack_bench.so" "$out/modules/pyo3_dlpack_bench.so"
else
  say "skipped dlpark and pyo3-dlpack: cargo is not installed"
fi

files=$(mktemp -d -p /dev/shm)
trap 'rm -r "$files"' EXIT

say "timing"
{
  "$out/bench" -batches "$batches" -rust "$rust" -views "$out/libviews.so" -kernels "$out/kernels.so"
  PYTHONPATH=$out/modules $python python/bench.py "$out/libexporter.so" "$batches" "$out/kernels.so"
  $python python/copies.py "$batches"
  $python python/conversions.py "$batches"
  $python python/stories.py "$out/libexporter.so" "$batches"
  $python python/files.py "$files" "$batches"
  "$out/bench" -files "$files" -batches "$batches"
  if [ "${BENCH_TORCH:-}" = 1 ]; then
    "$out/libtorch.test" -test.run none -test.bench . -test.benchtime "$((20 * batches))x" >"$out/libtorch.txt"
    awk '/^Benchmark/ { for (i = 4; i <= NF; i += 2) if (sub(/-ns$/, "", $i)) print "libtorch_" $i, $(i - 1), "ns" }' "$out/libtorch.txt"
  fi
} >"$out/results.txt"
cat "$out/results.txt"
"$out/report" -readme "$here/README.md" -plot "$here/times.svg" "$out/results.txt"
