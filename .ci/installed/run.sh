#!/bin/sh
# run.sh LIB WORK: installs the libraries from LIB into WORK, moves the installed tree, and builds and runs C programs
# against it, found by pkg-config and by CMake: with libdlbridge the header's test, and a program that decodes and
# encodes a message; with libdlbridge_tensor alone, shared and static, a program that has no second thread. Only dlb_*
# is exported.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
lib=${1:?usage: run.sh LIB WORK}
work=${2:?usage: run.sh LIB WORK}
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd)
program=$root/bridge/capi/testdata/header.c
alone=$root/bridge/capi/testdata/one_thread.c
message=$root/.ci/installed/message.c
peer=$root/examples/demo/message/peer

sh "$root/bridge/libdlbridge/install.sh" "$lib" "$work/first"
mv "$work/first" "$work/moved"

mkdir "$work/half" # make install-tensor
cp -P "$lib"/libdlbridge_tensor.* "$work/half"
sh "$root/bridge/libdlbridge/install.sh" "$work/half" "$work/tensor"
found=$(cd "$work/tensor" && find . -name 'libdlbridge.*' -o -name dlbridge.pc)
if [ -n "$found" ]; then
  echo "make install-tensor installs $found" >&2
  exit 1
fi

# make install and make uninstall, beside files of others and after another version: with libraries in other folders, and with DESTDIR.
for libdir in lib lib64 lib/x86_64-linux-gnu /usr/lib64; do
  gone="$work/gone by"
  mkdir -p "$gone/usr/lib/pkgconfig" "$gone/usr/include" # an empty folder of others stays
  : > "$gone/usr/lib/pkgconfig/others.pc"
  DESTDIR=$gone sh "$root/bridge/libdlbridge/install.sh" "$work/half" /usr
  DESTDIR=$gone LIBDIR=$libdir sh "$root/bridge/libdlbridge/install.sh" "$lib" /usr
  cmp "$root/LICENSE" "$gone/usr/share/doc/dlbridge/LICENSE"
  test -e "$gone/usr/${libdir#/usr/}/libdlbridge_tensor.so"
  DESTDIR=$gone sh "$root/bridge/libdlbridge/uninstall.sh" /usr
  left=$(cd "$gone/usr" && find . | LC_ALL=C sort | tr '\n' ' ')
  if [ "$left" != ". ./include ./lib ./lib/pkgconfig ./lib/pkgconfig/others.pc " ]; then
    echo "make uninstall after LIBDIR=$libdir leaves $left" >&2
    exit 1
  fi
done
# refused WORDS COMMAND...: the command fails, and says so in these words.
refused() {
  words=$1
  shift
  if "$@" > "$work/refused.txt" 2>&1 || ! tr -s '\n ' ' ' < "$work/refused.txt" | grep -qF -e "$words"; then
    echo "\"$*\" should be refused with \"$words\"; it says:" >&2
    cat "$work/refused.txt" >&2
    exit 1
  fi
}
refused "nothing of dlbridge is installed in $work/gone by/usr" sh "$root/bridge/libdlbridge/uninstall.sh" "$work/gone by/usr"
refused "LIBDIR=/opt/lib is not a folder below PREFIX=/usr" env DESTDIR="$work/gone by" LIBDIR=/opt/lib \
  sh "$root/bridge/libdlbridge/install.sh" "$lib" /usr
mkdir -p "$work/outside/share/dlbridge"
echo ../moved/lib/libdlbridge.so > "$work/outside/share/dlbridge/installed.txt"
refused "lead out of the folder" sh "$root/bridge/libdlbridge/uninstall.sh" "$work/outside"

if [ -e "$work/moved/include/dlpack" ]; then
  echo "dlpack.h was installed where upstream's lies" >&2
  exit 1
fi

for library in libdlbridge libdlbridge_tensor; do
  soname=$(readelf -d "$work/moved/lib/$library.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  case $soname in
  "$library".so.[0-9]*) ;;
  *) echo "SONAME is \"$soname\"" >&2; exit 1 ;;
  esac
  strangers=$(nm -D --defined-only "$work/moved/lib/$library.so" | awk '$3 !~ /^dlb_/ && $2 != "A" { print $3 }')
  if [ -n "$strangers" ]; then
    echo "$library.so exports without the prefix dlb_: $strangers" >&2
    exit 1
  fi
done
strangers=$(nm --defined-only --extern-only "$work/moved/lib/libdlbridge_tensor.a" | awk 'NF == 3 && $3 !~ /^dlb_/ { print $3 }')
if [ -n "$strangers" ]; then
  echo "libdlbridge_tensor.a has global names without the prefix dlb_: $strangers" >&2
  exit 1
fi

# The headers find each other by -IPREFIX/include alone.
printf '#include <dlbridge/dlbridge.h>\nint main(void) { return DLB_OK; }\n' |
  ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only -I"$work/moved/include" -x c -

if command -v pkg-config > /dev/null; then
  export PKG_CONFIG_PATH="$work/moved/lib/pkgconfig"
  flags=$(pkg-config --cflags --libs dlbridge)
  # shellcheck disable=SC2086 # flags are words
  ${CC:-cc} -std=c99 "$program" -o "$work/by-pkg-config" $flags "-Wl,-rpath,$work/moved/lib"
  "$work/by-pkg-config"
  ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror "$message" -o "$work/message" $flags "-Wl,-rpath,$work/moved/lib"
  "$work/message" "$peer"
  flags=$(pkg-config --cflags --libs dlbridge_tensor)
  # shellcheck disable=SC2086 # flags are words
  ${CC:-cc} -std=gnu11 "$alone" -o "$work/alone" $flags "-Wl,-rpath,$work/moved/lib"
  "$work/alone"
  flags=$(pkg-config --static --cflags --libs dlbridge_tensor | sed 's/-ldlbridge_tensor/-l:libdlbridge_tensor.a/')
  # shellcheck disable=SC2086 # flags are words
  ${CC:-cc} -std=gnu11 "$alone" -o "$work/alone-static" $flags
  "$work/alone-static"
  # shellcheck disable=SC2086 # flags are words
  if ${CC:-cc} -std=c99 "$message" -o "$work/none" $flags 2> "$work/none.log"; then
    echo "a program with messages is linked without libdlbridge" >&2
    exit 1
  fi
  grep -q "undefined reference to .dlb_message_decode" "$work/none.log"
  echo "pkg-config: ok"
else
  echo "SKIP: pkg-config is not installed"
fi

if command -v cmake > /dev/null; then
  cat > "$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.10)
project(consumer C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(dlbridge 0.1 REQUIRED)
find_package(dlbridge 1000 QUIET)
if(dlbridge_FOUND)
  message(FATAL_ERROR "of another major version")
endif()
add_executable(by-cmake $program)
target_link_libraries(by-cmake dlbridge::dlbridge)
add_executable(message-by-cmake $message)
target_link_libraries(message-by-cmake dlbridge::dlbridge)
add_executable(cpp-by-cmake $root/.ci/cpp/dlbridge.cpp)
target_link_libraries(cpp-by-cmake dlbridge::dlbridge)
add_executable(alone-by-cmake $alone)
target_link_libraries(alone-by-cmake dlbridge::tensor)
add_executable(static-by-cmake $alone)
target_link_libraries(static-by-cmake dlbridge::tensor_static)
END
  cmake -S "$work" -B "$work/cmake" "-DCMAKE_PREFIX_PATH=$work/moved" > "$work/cmake.log"
  cmake --build "$work/cmake" >> "$work/cmake.log"
  printf 'cmake_minimum_required(VERSION 3.10)\nproject(consumer C)\nfind_package(dlbridge 0.1 REQUIRED)\n
add_executable(alone %s)\ntarget_link_libraries(alone dlbridge::tensor)\n' "$alone" > "$work/half/CMakeLists.txt"
  cmake -S "$work/half" -B "$work/half/cmake" "-DCMAKE_PREFIX_PATH=$work/tensor" >> "$work/cmake.log"
  cmake --build "$work/half/cmake" >> "$work/cmake.log"
  "$work/half/cmake/alone"
  # component NAMES PREFIX: find_package asks for components of an installed copy.
  component() {
    rm -rf "$work/component"
    mkdir "$work/component"
    printf 'cmake_minimum_required(VERSION 3.10)\nproject(consumer NONE)\nfind_package(dlbridge 0.1 REQUIRED COMPONENTS %s)\n' \
      "$1" > "$work/component/CMakeLists.txt"
    cmake -S "$work/component" -B "$work/component/build" "-DCMAKE_PREFIX_PATH=$2"
  }
  component "tensor tensor_static dlbridge OPTIONAL_COMPONENTS others" "$work/moved" >> "$work/cmake.log"
  component "tensor OPTIONAL_COMPONENTS dlbridge" "$work/tensor" >> "$work/cmake.log"
  refused "The component \"others\" does not exist. In $work/moved there are: tensor, tensor_static, dlbridge." \
    component "tensor others" "$work/moved"
  refused "The component \"dlbridge\" is not installed; \`make install\` of dlbridge, which needs Go, installs it. In $work/tensor there are: tensor, tensor_static." \
    component dlbridge "$work/tensor"
  "$work/cmake/by-cmake"
  "$work/cmake/message-by-cmake" "$peer"
  "$work/cmake/cpp-by-cmake" "$root"
  "$work/cmake/alone-by-cmake"
  "$work/cmake/static-by-cmake"
  echo "cmake: ok"
else
  echo "SKIP: cmake is not installed"
fi
