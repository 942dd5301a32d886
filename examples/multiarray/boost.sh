#!/bin/sh
# boost.sh DIR: unpacks Debian's or Ubuntu's package of Boost's headers into DIR, so that they lie in DIR/usr/include,
# unless they are installed or lie there already. Nobody needs to be root for that.
set -eu
dir=${1:?usage: boost.sh DIR}
for root in / "$dir"; do
  [ ! -e "$root/usr/include/boost/multi_array.hpp" ] || exit 0
done
package=$(apt-cache depends libboost-dev 2> /dev/null | sed -n 's/^ *Depends: \(libboost[0-9.]*-dev\)$/\1/p') || true
mkdir -p "$dir"
cd "$dir"
if ! { apt-get download "${package:-libboost-dev}" && dpkg -x "$package"_*.deb .; } > log 2>&1; then
  cat log >&2
  echo "boost.sh: no Boost to be had: install libboost-dev, or run apt-get update" >&2
  exit 1
fi
rm "$package"_*.deb
