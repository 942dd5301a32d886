#!/bin/sh
# run.sh builds and runs this folder with the libtorch of a PyTorch wheel. It passes its arguments to go, such as
# `sh run.sh test -bench . ./...`; without arguments it calls `go run .`. PYTHON names an interpreter that has PyTorch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/build/libtorch
python=${PYTHON:-python3}
case $python in /*) ;; */*) python=$PWD/$python ;; esac
if ! wheel=$("$python" -c 'import os, torch
print(os.path.dirname(torch.__file__), torch.__version__, int(torch.compiled_with_cxx11_abi()), sep="\n")'); then
  echo "run.sh: $python has no PyTorch: pip install torch, or set PYTHON" >&2
  exit 1
fi
torch=$(echo "$wheel" | sed -n 1p) version=$(echo "$wheel" | sed -n 2p) abi=$(echo "$wheel" | sed -n 3p)
mkdir -p "$out"
LIBTORCH_MODEL=$out/model-$version.pt
export LIBTORCH_MODEL PYTHON="$python"
[ "$LIBTORCH_MODEL" -nt "$here/model.py" ] || "$python" "$here/model.py" "$LIBTORCH_MODEL"

# The program links torch_cpu and c10 only; with -ltorch the CUDA libraries would be loaded too. The macro WHEEL makes Go
# build again for another version of PyTorch, because Go's build cache does not look at these headers.
export CGO_CXXFLAGS="-O2 -I$torch/include -D_GLIBCXX_USE_CXX11_ABI=$abi -DWHEEL=$version"
export CGO_LDFLAGS="-L$torch/lib -Wl,-rpath,$torch/lib"
cd "$here"
if [ $# = 0 ]; then set -- run .; fi
exec "${GO:-go}" "$@"
