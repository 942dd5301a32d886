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

`make bench-zeromq` writes this page. One process sends messages from a PUSH socket to a PULL socket. The receiver reads one byte of each
page of 4 KiB. All paths take turns; each row is the median. dlbridge and pebbe/zmq4 encode each message anew and decode it to tensors.
The loop in C does neither: it sends the same memory without copying, on the same libzmq. pyzmq (`copy=False`) has its own libzmq, and sends
the same frames again and again.

END
  cat "$build/table.md"
  cat << 'END'

## The pipeline

[examples/pipeline](../../pipeline/README.md) runs with two producers, one worker in Go and one in Python. Tensors have 16 MiB, and no worker
is killed. A worker doubles each tensor, and the collector checks it. GB/s count the results.

| transport | result |
|---|---|
END
  for transport in tcp ipc shm; do
    echo "| $transport | $(tail -n 1 "$build/pipeline.$transport") |"
  done
} > zeromq/README.md
