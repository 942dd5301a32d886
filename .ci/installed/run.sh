#!/bin/sh
# run.sh LIB WORK PYTHON: checks the installed files, and builds C and C++ programs with them in all supported ways.
#
#   the installed files    of the libraries in LIB: names, SONAMEs, exports, the license; make uninstall removes all of them
#   libdlbridge            programs that need Go, by pkg-config and by CMake, with an installed tree that was moved
#   libdlbridge_tensor     tensor.c and tensor.cpp, with each compiler, each kind of library and each way of finding it (see the table at
#                          the end)
#
# A missing tool is an error; .ci/packages.sh installs the tools.
set -eu
unset LIBDIR DESTDIR # make exports them
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
scripts=$root/bridge/libdlbridge
lib=$(cd "${1:?usage: run.sh LIB WORK PYTHON}" && pwd)
work=${2:?usage: run.sh LIB WORK PYTHON}
python=${3:?usage: run.sh LIB WORK PYTHON}
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd)

fail() {
  echo "installed: $*" >&2
  exit 1
}
# refused WORDS COMMAND...: checks that the command fails, and prints these words.
refused() {
  words=$1
  shift
  if "$@" > "$work/refused.txt" 2>&1 || ! tr -s '\n ' ' ' < "$work/refused.txt" | grep -qF -e "$words"; then
    cat "$work/refused.txt" >&2
    fail "\"$*\" should be refused with \"$words\", and says the above"
  fi
}
# works KIND PROGRAM: checks the output of a build of tensor.c or tensor.cpp, and that it needs libdlbridge_tensor.so only if KIND is shared.
works() {
  wanted="$(sed -n 's/^#define DLB_VERSION_[A-Z]* //p' "$root/include/dlbridge.h" | paste -s -d .): int32[3 2] on cpu [[1 4] [2 5] [3 6]], 0 left"
  # shellcheck disable=SC2086
  printed=$($runner "$2")
  [ "$printed" = "$wanted" ] || fail "\"$2\" prints \"$printed\", and not \"$wanted\""
  needs=static
  readelf -d "$2" | grep -q 'NEEDED.*libdlbridge_tensor' && needs=shared
  [ "$needs" = "$1" ] || fail "\"$2\" is $needs, and not $1"
}
# by_cmake SOURCE BUILD ARGUMENTS...: configures the CMake project in the folder SOURCE, and builds it in the folder BUILD.
by_cmake() {
  source=$1 build=$2
  shift 2
  { cmake -S "$source" -B "$build" "$@" && cmake --build "$build" -j2; } > "$build.log" 2>&1 || {
    cat "$build.log" >&2
    fail "CMake does not build $source in $build, as above"
  }
}

# exports LIBRARY: prints the names that it exports, with their versions.
exports() { readelf --dyn-syms -W "$1" | awk '$4 != "SECTION" && $7 ~ /^[0-9]/ { print $8 }' | LC_ALL=C sort; }

# ---- the installed files

sh "$scripts/install.sh" "$lib" "$work/first"
mv "$work/first" "$work/moved"
usr=$work/moved

mkdir "$work/half" # make install-tensor
cp -P "$lib"/libdlbridge_tensor.* "$work/half"
sh "$scripts/install.sh" "$work/half" "$work/tensor"
found=$(cd "$work/tensor" && find . -name 'libdlbridge.*' -o -name dlbridge.pc)
[ -z "$found" ] || fail "make install-tensor installs $found"

# make install and make uninstall, with DESTDIR and several LIBDIRs, next to files of other packages and over an earlier installation.
for libdir in lib lib64 lib/x86_64-linux-gnu /usr/lib64; do
  gone="$work/gone by"
  mkdir -p "$gone/usr/lib/pkgconfig" "$gone/usr/include" # an empty folder of another package must stay
  : > "$gone/usr/lib/pkgconfig/others.pc"
  DESTDIR=$gone sh "$scripts/install.sh" "$work/half" /usr
  make -s -C "$root" -o clib install "BUILD=$(dirname "$lib")" PREFIX=/usr "DESTDIR=$gone" "LIBDIR=$libdir" > "$work/make.log"
  cmp "$root/LICENSE" "$gone/usr/share/doc/dlbridge/LICENSE"
  test -e "$gone/usr/${libdir#/usr/}/libdlbridge_tensor.so"
  make -s -C "$root" uninstall PREFIX=/usr "DESTDIR=$gone" > "$work/make.log"
  left=$(cd "$gone/usr" && find . | LC_ALL=C sort | tr '\n' ' ')
  [ "$left" = ". ./include ./lib ./lib/pkgconfig ./lib/pkgconfig/others.pc " ] || fail "make uninstall after LIBDIR=$libdir leaves $left"
done
refused "nothing of dlbridge is installed in $work/gone by/usr" sh "$scripts/uninstall.sh" "$work/gone by/usr"
refused "LIBDIR=/opt/lib is not a folder below PREFIX=/usr" env DESTDIR="$work/gone by" LIBDIR=/opt/lib sh "$scripts/install.sh" "$lib" /usr
for libdir in . ./lib lib/./x lib//x /usr/; do
  refused "LIBDIR=$libdir is not a folder below PREFIX=/usr" env DESTDIR="$work/gone by" "LIBDIR=$libdir" sh "$scripts/install.sh" "$lib" /usr
done
refused "PREFIX=usr and DESTDIR= must be absolute paths" sh "$scripts/install.sh" "$lib" usr
refused "PREFIX=/usr and DESTDIR=to must be absolute paths" env DESTDIR=to sh "$scripts/install.sh" "$lib" /usr

# make uninstall also removes PREFIX and the folders above it, if make install made them and they are empty. It also removes the files
# of an installation that failed.
DESTDIR=$work/new/to sh "$scripts/install.sh" "$work/half" /opt/usr
DESTDIR=$work/new/to sh "$scripts/uninstall.sh" /opt/usr
[ ! -e "$work/new" ] || fail "make uninstall leaves $(find "$work/new")"
mkdir "$work/failed"
: > "$work/failed/lib"
refused "mkdir" sh "$scripts/install.sh" "$work/half" "$work/failed"
sh "$scripts/uninstall.sh" "$work/failed"
left=$(cd "$work/failed" && find . | LC_ALL=C sort | tr '\n' ' ')
[ "$left" = ". ./lib " ] || fail "make uninstall after an installation that failed leaves $left"

mkdir -p "$work/outside/share/dlbridge"
echo ../moved/lib/libdlbridge.so > "$work/outside/share/dlbridge/installed.txt"
refused "lead out of the folder" sh "$scripts/uninstall.sh" "$work/outside"
mkdir "$work/others"
printf '%s\n' "$work/others" "$work/failed/lib" > "$work/outside/share/dlbridge/installed.txt"
sh "$scripts/uninstall.sh" "$work/outside"
[ -d "$work/others" ] && [ -e "$work/failed/lib" ] || fail "make uninstall removes what is outside of PREFIX"

[ ! -e "$usr/include/dlpack" ] || fail "dlpack.h was installed where upstream's lies"
for library in libdlbridge libdlbridge_tensor; do
  soname=$(readelf -d "$usr/lib/$library.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  case $soname in
  "$library".so.[0-9]*) ;;
  *) fail "SONAME is \"$soname\"" ;;
  esac
done
# Paths may have commas and blanks, two builds may run at the same time, and a libdlbridge_tensor.so in a folder of LDFLAGS is not linked.
mkdir "$work/stale"
echo 'int stale;' | gcc -shared -x c - -o "$work/stale/libdlbridge_tensor.so" -Wl,-soname,stale.so
sh "$scripts/tensor.sh" "$work/a, b" &
LDFLAGS="-L$work/stale -Wl,-rpath,/where" sh "$scripts/build.sh" "$work/a, b"
wait $! || fail "tensor.sh fails beside another one"
for library in libdlbridge libdlbridge_tensor; do
  [ "$(exports "$work/a, b/$library.so")" = "$(exports "$lib/$library.so")" ] || fail "$library.so in \"$work/a, b\" exports other names"
done
readelf -d "$work/a, b/libdlbridge.so" | grep -q 'NEEDED.*libdlbridge_tensor' || fail "libdlbridge.so is linked to a library of LDFLAGS"
readelf -d "$work/a, b/libdlbridge.so" | grep -q 'RUNPATH.*/where' || fail "build.sh ignores LDFLAGS"
# With -IPREFIX/include alone, the headers find each other.
printf '#include <dlbridge/dlbridge.h>\nint main(void) { return DLB_OK; }\n' |
  gcc -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only -I"$usr/include" -x c -
echo "installed files: ok"

# ---- libdlbridge, which contains Go

program=$root/bridge/capi/testdata/header.c
alone=$root/bridge/capi/testdata/one_thread.c
message=$here/message.c
peer=$root/examples/demo/message/peer
export PKG_CONFIG_PATH="$usr/lib/pkgconfig"
flags="$(pkg-config --cflags --libs dlbridge) -Wl,-rpath,$usr/lib"
# shellcheck disable=SC2086 # flags are words, here and below
gcc -std=c99 "$program" -o "$work/by-pkg-config" $flags
"$work/by-pkg-config"
# shellcheck disable=SC2086
gcc -std=c99 -Wall -Wextra -pedantic -Werror "$message" -o "$work/message" $flags
"$work/message" "$peer"
flags="$(pkg-config --cflags --libs dlbridge_tensor) -Wl,-rpath,$usr/lib"
# shellcheck disable=SC2086
gcc -std=gnu11 "$alone" -o "$work/alone" $flags
"$work/alone"
# shellcheck disable=SC2086
refused "dlb_message_decode" gcc -std=c99 "$message" -o "$work/none" $flags

mkdir "$work/with-go"
cat > "$work/with-go/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.10)
project(consumer C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(dlbridge 0.1 REQUIRED)
find_package(dlbridge 1000 QUIET)
if(dlbridge_FOUND)
  message(FATAL_ERROR "of another major version")
endif()
if(NOT CMAKE_VERSION VERSION_LESS 3.19)
  find_package(dlbridge 0.0.1...<\${dlbridge_VERSION} QUIET)
  if(dlbridge_FOUND)
    message(FATAL_ERROR "of a version above the range")
  endif()
  find_package(dlbridge 0.0.1...1000 REQUIRED)
  find_package(dlbridge 0.0.1...\${dlbridge_VERSION} REQUIRED)
endif()
add_executable(by-cmake $program)
target_link_libraries(by-cmake dlbridge::dlbridge)
add_executable(message-by-cmake $message)
target_link_libraries(message-by-cmake dlbridge::dlbridge)
add_executable(cpp-by-cmake $root/.ci/cpp/dlbridge.cpp)
target_link_libraries(cpp-by-cmake dlbridge::dlbridge)
add_executable(alone-by-cmake $alone)
target_link_libraries(alone-by-cmake dlbridge::tensor)
END
by_cmake "$work/with-go" "$work/with-go/build" "-DCMAKE_PREFIX_PATH=$usr"
"$work/with-go/build/by-cmake"
"$work/with-go/build/message-by-cmake" "$peer"
"$work/with-go/build/cpp-by-cmake" "$root"
"$work/with-go/build/alone-by-cmake"

# component NAMES PREFIX: runs find_package with these components on an installed copy.
component() {
  rm -rf "$work/component"
  mkdir "$work/component"
  printf 'cmake_minimum_required(VERSION 3.10)\nproject(consumer NONE)\nfind_package(dlbridge REQUIRED COMPONENTS %s)\n' \
    "$1" > "$work/component/CMakeLists.txt"
  cmake -S "$work/component" -B "$work/component/build" "-DCMAKE_PREFIX_PATH=$2"
}
component "tensor tensor_static dlbridge OPTIONAL_COMPONENTS others" "$usr" > "$work/component.log"
component "tensor OPTIONAL_COMPONENTS dlbridge" "$work/tensor" >> "$work/component.log"
refused "The component \"others\" does not exist. In $usr there are: tensor, tensor_static, dlbridge." component "tensor others" "$usr"
refused "The component \"dlbridge\" is not installed; \`make install\` of dlbridge, which needs Go, installs it. In $work/tensor there are: tensor, tensor_static." \
  component dlbridge "$work/tensor"
echo "libdlbridge: ok"

# ---- libdlbridge_tensor, with each compiler

mkdir "$work/bin"
zig="\"$(cd "$(dirname "$python")" && pwd)/$(basename "$python")\" -m ziglang"
wrapper() { printf '#!/bin/sh\nexec %s "$@"\n' "$2" > "$work/bin/$1"; chmod +x "$work/bin/$1"; }
for tool in cc c++ ar; do wrapper "zig-$tool" "$zig $tool"; done # for CMake, a compiler must be one word
wrapper musl-cc "$zig cc -target $(uname -m)-linux-musl"
PATH=$work/bin:$PATH
ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
"$python" "$scripts/amalgamate.py" "$work/amalgamation"
if grep -e -Iinclude "$work/amalgamation/dlbridge_tensor.c"; then fail "dlbridge_tensor.c says how tensor.c is built"; fi

# programs KIND OUT FLAGS...: builds tensor.c and tensor.cpp as OUT-c and OUT-cpp with $cc, $cxx and CFLAGS, and runs them. If $cxx is
# empty, it builds only tensor.c.
programs() {
  kind=$1 out=$2
  shift 2
  # shellcheck disable=SC2086
  $cc -std=c99 ${CFLAGS:-} "$here/tensor.c" -o "$out-c" "$@"
  works "$kind" "$out-c"
  [ -n "$cxx" ] || return 0
  # shellcheck disable=SC2086
  $cxx -std=c++17 ${CFLAGS:-} "$here/tensor.cpp" -o "$out-cpp" "$@"
  works "$kind" "$out-cpp"
}

# try NAME CC CXX AR LIBDIR WAYS [RUNNER]: builds the library, installs it, and builds and runs the programs in these ways.
try() {
  name=$1 cc=$2 cxx=$3 ar=$4 libdir=$5 ways=$6 runner=${7:-}
  at=$work/$name
  CC=$cc AR=$ar sh "$scripts/tensor.sh" "$at/lib"
  [ "$(exports "$at/lib/libdlbridge_tensor.so")" = "$(exports "$lib/libdlbridge_tensor.so")" ] ||
    fail "libdlbridge_tensor.so of $name exports other names than that of $lib"
  LIBDIR=$libdir sh "$scripts/install.sh" "$at/lib" "$at/usr"
  for way in $ways; do
    case $way in
    pkg-config)
      export PKG_CONFIG_PATH="$at/usr/$libdir/pkgconfig"
      # shellcheck disable=SC2046
      programs shared "$at/shared" $(pkg-config --cflags --libs dlbridge_tensor) "-Wl,-rpath,$at/usr/$libdir"
      # shellcheck disable=SC2046
      programs static "$at/static" $(pkg-config --static --cflags --libs dlbridge_tensor_static)
      ;;
    amalgamation)
      # shellcheck disable=SC2086
      $cc -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror ${CFLAGS:-} -c "$work/amalgamation/dlbridge_tensor.c" -o "$at/dlbridge_tensor.o"
      programs static "$at/amalgamation" -I"$work/amalgamation" "$at/dlbridge_tensor.o" -lpthread -ldl -lm
      ;;
    *)
      by_cmake "$here" "$at/$way" "-DBY=$way" "-DCHECKOUT=$root" "-DCMAKE_PREFIX_PATH=$at/usr" "-DCMAKE_C_COMPILER=$cc" \
        "-DCMAKE_CXX_COMPILER=$cxx" ${runner:+-DCMAKE_SYSTEM_NAME=Linux}
      [ "$way" = find_package ] ||
        [ "$(exports "$(find "$at/$way" -name libdlbridge_tensor.so)")" = "$(exports "$at/lib/libdlbridge_tensor.so")" ] ||
        fail "libdlbridge_tensor.so of $way exports other names than that of tensor.sh"
      for language in c cpp; do
        works shared "$at/$way/tensor-$language"
        works static "$at/$way/tensor_static-$language"
      done
      ;;
    esac
  done
  echo "$name: $ways: ok"
}

# row NAME …: starts try. The rows run at the same time, because CMake and the linkers often use only one core.
rows=
row() { try "$@" & rows="$rows $!"; }

# The CMakeLists.txt of the library, built as a project of its own, builds both kinds.
by_cmake "$scripts" "$work/by itself, with a comma"
[ -e "$work/by itself, with a comma/libdlbridge_tensor.so" ] && [ -e "$work/by itself, with a comma/libdlbridge_tensor.a" ] ||
  fail "CMake builds not both kinds by itself"
grep -qF include/dlbridge.h "$work/by itself, with a comma/CMakeFiles/Makefile.cmake" || fail "a new version in dlbridge.h is not seen by CMake"

all="pkg-config find_package add_subdirectory amalgamation"
debian=lib/$(gcc -dumpmachine)
#   name      CC                    CXX                   AR                   LIBDIR    ways
row gcc       gcc                   g++                   ar                   lib       "$all FetchContent"
row clang     clang                 clang++               ar                   "$debian" "$all"
row zig       zig-cc                zig-c++               zig-ar               lib       "$all"
row musl      musl-cc               ""                    zig-ar               lib       amalgamation
row aarch64   aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ aarch64-linux-gnu-ar lib       "$all" "qemu-aarch64 -L /usr/aarch64-linux-gnu"
export CFLAGS="-O2 -flto=auto"
row gcc-lto   gcc                   g++                   gcc-ar               lib       "pkg-config amalgamation"
row clang-lto clang                 clang++               ar                   lib       "pkg-config amalgamation"
export CFLAGS="-fvisibility=hidden"
row hidden    gcc                   g++                   ar                   lib       pkg-config
export CFLAGS="-fsanitize=undefined" CXXFLAGS="-fsanitize=undefined"
row ubsan     clang                 clang++               ar                   lib       "pkg-config find_package add_subdirectory"
failed=0
for row in $rows; do wait "$row" || failed=1; done
exit $failed
