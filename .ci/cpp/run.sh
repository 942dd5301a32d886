#!/bin/sh
# run.sh LIB WORK PYTHON [short]: builds the tests of dlbridge.hpp with the libraries in LIB, and runs them. It uses g++ for C++17 and
# C++20, with the sanitizers. For C++23 it uses the clang of the Python package ziglang, because g++ 12 has no std::mdspan. Then it checks
# that g++ and clang++ refuse the wrong uses of refused.txt. A missing compiler is an error. With `short`, the tests run only with $CXX
# and C++17, without sanitizers. A missing g++ or clang++ then does not check the wrong uses.
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
  "$@" "-std=$standard" -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Werror -I"$root/include" "$root/.ci/cpp/dlbridge.cpp" \
    -o "$work/$standard" -L"$lib" -ldlbridge -ldlbridge_tensor "-Wl,-rpath,$lib"
  "$work/$standard" "$root"
  echo "dlbridge.hpp in $standard: ok"
}

# The programs at the top of the header must print the text of their comments. The first needs only the library without Go.
sed -n 's|^//   ||p' "$root/include/dlbridge.hpp" |
  awk -v work="$work" '/#include <dlbridge.hpp>/ { n++; open = 1 } open { print > (work "/head" n ".cpp") } /^}/ { open = 0 }'
libraries=-ldlbridge_tensor
for program in "$work/head1" "$work/head2"; do
  # shellcheck disable=SC2086 # flags are words
  "${CXX:-c++}" -std=c++17 -I"$root/include" "$program.cpp" -o "$program" -L"$lib" $libraries "-Wl,-rpath,$lib"
  wanted=$(sed -n 's|.*std::cout << .*; // ||p' "$program.cpp")
  printed=$("$program")
  if [ -z "$wanted" ] || [ "$printed" != "$wanted" ]; then
    echo "a program in dlbridge.hpp prints \"$printed\", and not \"$wanted\"" >&2
    exit 1
  fi
  libraries="-ldlbridge -ldlbridge_tensor"
done

# The lines in the comment of the class `file` compile.
{
  echo '#include <dlbridge.hpp>
#include <iostream>
int main() {'
  sed -n '/^\/\/   dlbridge::file f(/,/^class/s|^//   ||p' "$root/include/dlbridge.hpp"
  echo '}'
} > "$work/file.cpp"
grep -q 'f\["' "$work/file.cpp"
"${CXX:-c++}" -std=c++17 -Wall -Wextra -Werror -I"$root/include" -fsyntax-only "$work/file.cpp"

# In a file compiled without exceptions, an error prints its text and ends the process, even if another file has exceptions.
flags="-std=c++17 -Wall -Wextra -Werror -I$root/include"
# shellcheck disable=SC2086 # flags are words
"${CXX:-c++}" $flags -c "$root/.ci/cpp/no_exceptions.cpp" -o "$work/with.o"
for option in -fno-exceptions -DDLBRIDGE_NO_EXCEPTIONS; do
  # shellcheck disable=SC2086
  "${CXX:-c++}" $flags "$option" -c "$root/.ci/cpp/no_exceptions.cpp" -o "$work/without.o"
  "${CXX:-c++}" "$work/without.o" "$work/with.o" -o "$work/no_exceptions" -L"$lib" -ldlbridge_tensor "-Wl,-rpath,$lib"
  rc=0
  printed=$("$work/no_exceptions" 2> "$work/no_exceptions.txt") || rc=$?
  if [ "$rc" != 134 ] || [ "$printed" != "float32[2] on cpu [3 4] 1" ] || ! grep -q '^dlbridge: error layout: dlb_tensor_reshape: ' "$work/no_exceptions.txt"; then
    echo "with $option: exit code $rc, not 134 (abort); printed \"$printed\" and \"$(cat "$work/no_exceptions.txt")\"" >&2
    exit 1
  fi
done

if [ "${4:-}" = short ]; then
  installed=$(for compiler in g++ clang++; do command -v "$compiler" > /dev/null && echo "$compiler"; done || true)
  # shellcheck disable=SC2086 # compilers are words
  "$python" "$root/.ci/cpp/refused.py" "$root/include" "$work/refused" ${installed:-"${CXX:-c++}"}
  try c++17 "${CXX:-c++}"
  exit
fi
"$python" "$root/.ci/cpp/refused.py" "$root/include" "$work/refused" g++ clang++
sanitized="-fsanitize=address,undefined -fno-sanitize-recover=all"
# shellcheck disable=SC2086 # flags are words
for standard in c++17 c++20; do try "$standard" "${CXX:-c++}" $sanitized -Wuseless-cast; done
echo '#include <mdspan>
#ifndef __cpp_lib_mdspan
#error this compiler has no std::mdspan
#endif' > "$work/mdspan.cpp"
"$python" -m ziglang c++ -std=c++23 -c "$work/mdspan.cpp" -o "$work/mdspan.o"
try c++23 "$python" -m ziglang c++
