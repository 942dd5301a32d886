#!/bin/sh
# python.sh PYTHON: prints the path of the interpreter that PYTHON names. If a name such as python3.13 does not run, python.sh looks
# for that version in pyenv. If it is missing there too, python.sh fails.
set -eu
name=${1:?usage: python.sh PYTHON}
python=$name
if ! "$python" -c '' 2> /dev/null && command -v pyenv > /dev/null; then
  python=$(pyenv prefix "${name#python}" 2> /dev/null)/bin/python || true
fi
"$python" -c 'import sys; print(sys.executable)' 2> /dev/null || {
  echo "python.sh: $name does not run; install it (such as with pyenv), or name another: make PEERS_PYTHON=… or WHEEL_PYTHONS=…" >&2
  exit 1
}
