#!/bin/sh
# libzmq.sh PREFIX builds libzmq with its draft API and installs it under PREFIX. No Debian package has the draft API. The sources
# come from a Rust crate.
set -eu
prefix=$1
crate=zeromq-src-0.3.6+4.3.5
sum=d9a1c884770df9c1b3eb0a0ad01d7516234879e0ce144c505348550f2492923e
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" - "https://static.crates.io/crates/zeromq-src/$crate.crate" "$sum" "$work/crate" <<'PYTHON'
import hashlib, sys, time, urllib.request
url, want, file = sys.argv[1:]
for left in (2, 1, 0):
    try:
        data = urllib.request.urlopen(url, timeout=60).read()
        break
    except OSError:
        if not left:
            raise
        time.sleep(5)
got = hashlib.sha256(data).hexdigest()
if got != want:
    sys.exit(f"libzmq.sh: {url} has the SHA-256 {got}, want {want}")
open(file, "wb").write(data)
PYTHON
tar -xzf "$work/crate" -C "$work"
cmake -S "$work/$crate/vendor" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DENABLE_DRAFTS=ON -DBUILD_STATIC=OFF -DBUILD_TESTS=OFF \
  -DENABLE_CURVE=OFF -DENABLE_WS=OFF -DWITH_TLS=OFF -DWITH_LIBBSD=OFF -DWITH_DOCS=OFF -DWITH_PERF_TOOL=OFF -DENABLE_CPACK=OFF \
  -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib > "$work/log" 2>&1 &&
  cmake --build "$work/build" --parallel 2 --target install >> "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
