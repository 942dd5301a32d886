#!/bin/sh
# packages.sh installs the Debian packages that the checks use beyond what .ci/needs.sh asks for, if any is missing. It needs
# root, or a sudo that asks for no password. Without them, the tests that need a package are skipped, which .ci/run does not accept.
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
