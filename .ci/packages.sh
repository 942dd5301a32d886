#!/bin/sh
# packages.sh installs the Debian packages that the checks need in addition to the tools of .ci/needs.sh. It needs root, or sudo
# without a password. If a package is missing, the tests that need it are skipped, and .ci/run fails.
set -eu
missing=
for package in clang cmake g++ g++-aarch64-linux-gnu gcc-aarch64-linux-gnu gcc-mingw-w64-x86-64-win32 libc6-dev-arm64-cross libclang-rt-dev libczmq-dev libzmq3-dev pkg-config qemu-user valgrind; do
  dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2> /dev/null | grep -q '^installed$' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get > /dev/null; then
  echo "packages.sh: this is no Debian; the checks use these packages of it, or what they contain:$missing" >&2
  exit 0
elif [ "$(id -u)" = 0 ]; then
  sudo=
elif sudo -n true 2> /dev/null; then
  sudo=sudo
else
  echo "packages.sh: without root these cannot be installed:$missing" >&2
  exit 0
fi
echo "packages.sh: installing$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086 # the words are the packages
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $missing > /dev/null
