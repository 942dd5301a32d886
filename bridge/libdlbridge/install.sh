#!/bin/sh
# install.sh LIB PREFIX: copies the libraries from LIB, the headers and the license to PREFIX. It adds the files with which pkg-config
# and CMake find them. If LIB has no libdlbridge, it installs only libdlbridge_tensor. The installed tree can be moved.
# LIBDIR is the folder of the libraries below PREFIX, by default lib. If DESTDIR is set, it is put before PREFIX. PREFIX and DESTDIR must
# be absolute paths.
#
# dlpack.h goes into our own folder, so that it never replaces an upstream header. share/dlbridge/installed.txt lists the installed files
# and the folders that install.sh made, and uninstall.sh removes them. Names below PREFIX are relative to it.
set -eu
lib=${1:?usage: install.sh LIB PREFIX}
prefix=${2:?usage: install.sh LIB PREFIX}
case ${DESTDIR:-/}:$prefix in
/*:/*) ;;
*)
  echo "install.sh: PREFIX=$prefix and DESTDIR=${DESTDIR:-} must be absolute paths, such as $PWD/usr, since make may run in another folder" >&2
  exit 1
  ;;
esac
prefix=${prefix%/}
to=${DESTDIR:-}$prefix
libdir=${LIBDIR:-lib}
libdir=${libdir#"$prefix/"}
libdir=${libdir%/}
case /$libdir/ in
*//* | */./* | *..* | *[!A-Za-z0-9/._+-]*)
  echo "install.sh: LIBDIR=$LIBDIR is not a folder below PREFIX=$prefix, such as lib64 or lib/x86_64-linux-gnu" >&2
  exit 1
  ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
number() { sed -n "s/^#define DLB_VERSION_$1 //p" "$root/include/dlbridge.h"; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)

umask 022
list=$to/share/dlbridge/installed.txt
made=
# note NAME: adds a new folder to the list, as soon as the list exists.
note() {
  made="$made$1
"
  [ ! -d "${list%/*}" ] || { printf '%s' "$made" >> "$list"; made=; }
}
# above FOLDER: makes PREFIX and the folders above it, if they are missing.
above() { [ -d "$1/" ] || { above "${1%/*}"; mkdir "$1"; note "$1"; }; }
# folder NAME: makes a folder below PREFIX and its parents, if they are missing.
folder() {
  case $1 in */*) folder "${1%/*}" ;; esac
  [ -d "$to/$1" ] || { mkdir "$to/$1"; note "$1"; }
}
# put MODE NAME: writes standard input to a file below PREFIX.
put() { echo "$2" >> "$list"; rm -f "$to/$2"; cat > "$to/$2"; chmod "$1" "$to/$2"; }
# link NAME TARGET: makes a symbolic link below PREFIX.
link() { echo "$1" >> "$list"; ln -sf "$2" "$to/$1"; }
# fill NAME FOLDER: writes NAME.in to FOLDER, with its words @…@ replaced.
fill() {
  sed -e "s|@VERSION@|$version|g" -e "s|@MAJOR@|$major|g" -e "s|@LIBDIR@|$libdir|g" \
    -e "s|@UP@|$(echo "$libdir" | sed 's|[^/][^/]*|..|g')|g" "$here/$1.in" | put 644 "$2/$1"
}

above "$to"
folder share/dlbridge
echo share/dlbridge/installed.txt >> "$list"
folder share/doc/dlbridge
folder include/dlbridge/dlpack
folder "$libdir/pkgconfig"
folder "$libdir/cmake/dlbridge"

put 644 share/doc/dlbridge/LICENSE < "$root/LICENSE"
for header in dlbridge.h dlbridge.hpp dlpack/dlpack.h; do
  put 644 "include/dlbridge/$header" < "$root/include/$header"
done
sh "$here/suppressions.sh" | put 644 share/dlbridge/dlbridge.supp
for library in dlbridge dlbridge_tensor; do
  [ -e "$lib/lib$library.so.$version" ] || [ "$library" = dlbridge_tensor ] || continue
  put 755 "$libdir/lib$library.so.$version" < "$lib/lib$library.so.$version"
  link "$libdir/lib$library.so.$major" "lib$library.so.$version"
  link "$libdir/lib$library.so" "lib$library.so.$major"
  fill "$library.pc" "$libdir/pkgconfig"
done
put 644 "$libdir/libdlbridge_tensor.a" < "$lib/libdlbridge_tensor.a"
fill dlbridge_tensor_static.pc "$libdir/pkgconfig"
fill dlbridge-config.cmake "$libdir/cmake/dlbridge"
fill dlbridge-config-version.cmake "$libdir/cmake/dlbridge"
LC_ALL=C sort -u -o "$list" "$list"
