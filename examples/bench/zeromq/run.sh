#!/bin/sh
# Times TENS messages over ZeroMQ, and writes README.md beside this file. Needs libzmq with its headers.
set -eu
cd "$(dirname "$0")/.."
build=$(cd ../.. && pwd)/build/bench-zeromq
mkdir -p "$build"
if [ ! -f "$build/venv.done" ]; then
  "${PYTHON:-python3}" -m venv "$build/venv"
  "$build/venv/bin/python" -m pip --disable-pip-version-check install --quiet pyzmq==27.3.0
  touch "$build/venv.done"
fi
"${GO:-go}" build -C zeromq -o "$build/zeromq" .
"${GO:-go}" build -o "$build/pipeline" ../pipeline
for transport in tcp ipc shm; do
  "$build/pipeline" run -messages 100 -bytes 16777216 -kill 0 -retry 1m -transport $transport \
    -python ../../build/venv/bin/python -script ../pipeline/worker.py > "$build/pipeline.$transport"
done
PYTHON="$build/venv/bin/python" "$build/zeromq" "$@" > "$build/table.md"
{
  cat << 'END'
# TENS over ZeroMQ

`make bench-zeromq` writes this page. In one process, a PUSH socket sends messages to a PULL socket. The receiver reads one byte of each
page of 4 KiB. All paths take turns, and each row gives the median. dlbridge and pebbe/zmq4 encode every message anew, and decode it to
tensors. The other two neither encode nor decode. C is a loop that sends the same memory without copying it, on the same libzmq. pyzmq
(`copy=False`) sends the same frames repeatedly, on its own libzmq.

END
  cat "$build/table.md"
  cat << 'END'

## The pipeline

[examples/pipeline](../../pipeline/README.md) runs with two producers, one worker in Go and one in Python. Each tensor has 16 MiB, and no
worker is killed. A worker doubles each tensor, and the collector checks the result. GB/s counts the bytes of the results.

| transport | result |
|---|---|
END
  for transport in tcp ipc shm; do
    echo "| $transport | $(tail -n 1 "$build/pipeline.$transport") |"
  done
} > zeromq/README.md
