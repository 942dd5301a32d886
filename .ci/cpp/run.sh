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

# The programs at the top of the header print what their comments say. The first needs the library without Go only.
sed -n 's|^//   ||p' "$root/include/dlbridge.hpp" |
  awk -v work="$work" '/#include <dlbridge.hpp>/ { n++ } { print > (work "/head" n ".cpp") }'
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

# refuse TEXT STATEMENT: the statement must not compile, for the reason that a static_assert names.
refuse() {
  printf '#include <dlbridge.hpp>\nusing dlbridge::frame;\nusing dlbridge::tensor;\nint main() { %s }\n' "$2" > "$work/refused.cpp"
  if "${CXX:-c++}" -std=c++17 -fsyntax-only -I"$root/include" "$work/refused.cpp" 2> "$work/refused.txt"; then
    echo "this compiles: $2" >&2
    exit 1
  fi
  grep -q "static assertion failed.*$1" "$work/refused.txt" || { cat "$work/refused.txt" >&2; exit 1; }
}
refuse 'lend(std::move(x))' 'std::vector<float> x(3); auto t = tensor::lend(x);'
refuse 'lend(std::move(x))' 'std::string x; auto f = frame::lend(x);'
refuse 'const container cannot be moved' 'const std::vector<float> x(3); auto t = tensor::lend(std::move(x), {3});'
refuse 'a pointer owns no memory' 'float x[3] = {}; auto t = tensor::lend(&x[0], {3});'
refuse 'a pointer owns no memory' 'float x[3] = {}; auto t = tensor::lend(x);'
refuse 'a view owns no memory' 'auto t = tensor::lend(dlbridge::sizes{1, 2});'
refuse 'std::vector<bool> has no bool' 'auto t = tensor::lend(std::vector<bool>(3));'
refuse 'Characters are text' 'auto t = tensor::lend(std::string("text"));'
refuse 'Characters are text' 'auto t = tensor::zeros<char>({3});'

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
