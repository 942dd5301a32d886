#!/bin/sh
# uninstall.sh PREFIX: removes what install.sh has put there, of any version and in any LIBDIR, and the folders that it has
# made and that are empty now. DESTDIR, if it is set, stands before PREFIX.
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
# What is in a folder comes before it, in this order. Paths from the root are PREFIX and folders above it.
LC_ALL=C sort -ru "$to/$list" | while IFS= read -r name; do
  if [ "$name" != "${name#/}" ]; then
    case $to/ in "$name"/*) rmdir "$name" 2> /dev/null || true ;; esac # a tree that was moved is elsewhere
  elif [ -d "$to/$name" ] && [ ! -L "$to/$name" ]; then
    rmdir "$to/$name" 2> /dev/null || true # something of others is there
  else
    rm -f "$to/$name"
  fi
done
