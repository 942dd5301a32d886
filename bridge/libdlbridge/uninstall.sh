#!/bin/sh
# uninstall.sh PREFIX: removes the files that install.sh has installed, of any version and in any LIBDIR. It also removes the
# folders that install.sh made, if they are empty now. If DESTDIR is set, it is put before PREFIX.
set -eu
prefix=${1:?usage: uninstall.sh PREFIX}
to=${DESTDIR:-}${prefix%/}
list=share/dlbridge/installed.txt
if [ ! -f "$to/$list" ]; then
  echo "uninstall.sh: nothing of dlbridge is installed in $to: it has no $list; give the PREFIX and DESTDIR of make install" >&2
  exit 1
fi
if grep -E '(^|/)\.\.(/|$)' "$to/$list" >&2; then
  echo "uninstall.sh: these lines of $to/$list lead out of the folder; nothing is removed" >&2
  exit 1
fi
# In this order, the contents of a folder come before the folder. Absolute paths are PREFIX and the folders above it.
LC_ALL=C sort -ru "$to/$list" | while IFS= read -r name; do
  if [ "$name" != "${name#/}" ]; then
    case $to/ in "$name"/*) rmdir "$name" 2> /dev/null || true ;; esac # skips the old folders of a tree that was moved
  elif [ -d "$to/$name" ] && [ ! -L "$to/$name" ]; then
    rmdir "$to/$name" 2> /dev/null || true # the folder has files of other packages
  else
    rm -f "$to/$name"
  fi
done
