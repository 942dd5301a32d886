#!/bin/sh
# run.sh LIB WORK: installs the library from LIB into WORK, moves the installed tree, and builds and runs
# C programs against it, found by pkg-config and by CMake (G83): the header's test, and what README.md shows
# of C (G87). Only dlb_* is exported (G85).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
lib=${1:?usage: run.sh LIB WORK}
work=${2:?usage: run.sh LIB WORK}
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd)
program=$root/bridge/capi/testdata/header.c
story=$root/.ci/installed/story.c
peer=$root/examples/demo/message/peer

awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$root/README.md" > "$work/readme.inc"
test -s "$work/readme.inc"

sh "$root/bridge/libdlbridge/install.sh" "$lib" "$work/first"
mv "$work/first" "$work/moved"

mkdir -p "$work/gone by/lib" # make install and make uninstall, side by side with others
: > "$work/gone by/lib/others"
sh "$root/bridge/libdlbridge/install.sh" "$lib" "$work/gone by"
sh "$root/bridge/libdlbridge/uninstall.sh" "$work/gone by"
left=$(cd "$work/gone by" && find . ! -type d)
if [ "$left" != ./lib/others ]; then
  echo "make uninstall leaves $left" >&2
  exit 1
fi
if [ -e "$work/moved/include/dlpack" ]; then
  echo "dlpack.h was installed where upstream's lies" >&2
  exit 1
fi

soname=$(readelf -d "$work/moved/lib/libdlbridge.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
case $soname in
libdlbridge.so.[0-9]*) ;;
*) echo "SONAME is \"$soname\"" >&2; exit 1 ;;
esac
strangers=$(nm -D --defined-only "$work/moved/lib/libdlbridge.so" | awk '$3 !~ /^dlb_/ && $2 != "A" { print $3 }')
if [ -n "$strangers" ]; then
  echo "exported without the prefix dlb_: $strangers" >&2
  exit 1
fi

if command -v pkg-config > /dev/null; then
  flags=$(PKG_CONFIG_PATH=$work/moved/lib/pkgconfig pkg-config --cflags --libs dlbridge)
  # shellcheck disable=SC2086 # flags are words
  ${CC:-cc} -std=c99 "$program" -o "$work/by-pkg-config" $flags "-Wl,-rpath,$work/moved/lib"
  "$work/by-pkg-config"
  ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror "-I$work" "$story" -o "$work/story" $flags "-Wl,-rpath,$work/moved/lib"
  "$work/story" "$peer"
  echo "pkg-config: ok, $soname"
else
  echo "SKIP: pkg-config is not installed"
fi

if command -v cmake > /dev/null; then
  cat > "$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.10)
project(consumer C)
find_package(dlbridge 0.1 REQUIRED)
find_package(dlbridge 1000 QUIET)
if(dlbridge_FOUND)
  message(FATAL_ERROR "of another major version")
endif()
add_executable(by-cmake $program)
target_link_libraries(by-cmake dlbridge::dlbridge)
add_executable(story-by-cmake $story)
target_include_directories(story-by-cmake PRIVATE $work)
target_link_libraries(story-by-cmake dlbridge::dlbridge)
END
  cmake -S "$work" -B "$work/cmake" "-DCMAKE_PREFIX_PATH=$work/moved" > "$work/cmake.log"
  cmake --build "$work/cmake" >> "$work/cmake.log"
  "$work/cmake/by-cmake"
  "$work/cmake/story-by-cmake" "$peer"
  echo "cmake: ok"
else
  echo "SKIP: cmake is not installed"
fi
