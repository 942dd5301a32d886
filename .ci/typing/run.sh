#!/bin/sh
# run.sh PYTHON WORK: checks the installed package with mypy --strict, and ordinary uses of it (typed_use.py) with mypy --strict
# and pyright. Each `type: ignore` in typed_use.py marks a mistake that both must report.
set -eu
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=${2:?usage: run.sh PYTHON WORK}
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$work"
cp "$root/bridge/python/tests/typed_use.py" "$work"
echo '{"reportUnnecessaryTypeIgnoreComment": "error", "include": ["typed_use.py"]}' > "$work/pyrightconfig.json"
cd "$work" # outside of the sources, so that the installed package is found
"$python" -m mypy --strict typed_use.py
"$python" -m mypy --strict -p dlbridge
PYRIGHT_PYTHON_IGNORE_WARNINGS=1 "$python" -m pyright --pythonpath "$python"
