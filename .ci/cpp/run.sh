#!/bin/sh
# run.sh LIB WORK PYTHON [short]: builds the tests of dlbridge.hpp against the libraries in LIB, and runs them: with g++ as C++17 and
# C++20, and, because g++ 12 has no std::mdspan, with the clang of the Python package ziglang as C++23. g++ adds the sanitizers.
# `short` is C++17 alone, without them. A compiler that is missing is an error.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
lib=$(cd "${1:?usage: run.sh LIB WORK PYTHON [short]}" && pwd)
work=${2:?usage: run.sh LIB WORK PYTHON [short]}
python=${3:?usage: run.sh LIB WORK PYTHON [short]}
mkdir -p "$work"
work=$(cd "$work" && pwd)
ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
ASAN_OPTIONS=allocator_may_return_null=1
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR ASAN_OPTIONS

# try STANDARD COMPILER...: builds and runs the tests.
try() {
  standard=$1
  shift
  "$@" "-std=$standard" -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$root/include" "$root/.ci/cpp/dlbridge.cpp" \
    -o "$work/$standard" -L"$lib" -ldlbridge -ldlbridge_tensor "-Wl,-rpath,$lib"
  "$work/$standard" "$root"
  echo "dlbridge.hpp in $standard: ok"
}

# The program at the top of the header prints what its comment says, and needs the library without Go only.
sed -n 's|^//   ||p' "$root/include/dlbridge.hpp" > "$work/first.cpp"
"${CXX:-c++}" -std=c++17 -I"$root/include" "$work/first.cpp" -o "$work/first" -L"$lib" -ldlbridge_tensor "-Wl,-rpath,$lib"
wanted=$(sed -n 's|.*std::cout << x .*// ||p' "$work/first.cpp")
printed=$("$work/first")
if [ -z "$wanted" ] || [ "$printed" != "$wanted" ]; then
  echo "the program in dlbridge.hpp prints \"$printed\", and not \"$wanted\"" >&2
  exit 1
fi

if [ "${4:-}" = short ]; then
  try c++17 "${CXX:-c++}"
  exit
fi
sanitized="-fsanitize=address,undefined -fno-sanitize-recover=all"
# shellcheck disable=SC2086 # flags are words
for standard in c++17 c++20; do try "$standard" "${CXX:-c++}" $sanitized; done
echo '#include <mdspan>
#ifndef __cpp_lib_mdspan
#error this compiler has no std::mdspan
#endif' > "$work/mdspan.cpp"
"$python" -m ziglang c++ -std=c++23 -c "$work/mdspan.cpp" -o "$work/mdspan.o"
try c++23 "$python" -m ziglang c++
