"""Checks the output in the README, for each way to build it, and compares results of Boost and NumPy in every layout."""

import itertools
import pathlib
import subprocess

import numpy as np
import pytest

import dlbridge.tens

HERE = pathlib.Path(__file__).parent
PROGRAMS = ["multiarray", "multiarray-plain", "multi/multiarray"]


@pytest.fixture(scope="module", autouse=True)
def built(follow, build):
    headers = HERE.parent.parent / "build" / "boost"  # downloaded once
    if subprocess.run(["sh", HERE / "boost.sh", headers], check=False).returncode != 0:
        pytest.skip("Boost is not installed, and apt has none")
    if headers.exists():
        (build / "boost").symlink_to(headers)
    follow(HERE)


@pytest.fixture
def answer(run, build):
    def answer(program, array):
        names = [build / f"frame{i}.bin" for i in range(3)]
        for name, frame in zip(names, dlbridge.tens.encode([array]), strict=True):
            name.write_bytes(frame)
        ran = run(f"build/{program} build/answer.zio {' '.join(map(str, names))}")
        if ran.returncode == 0:
            message = dlbridge.tens.decode(dlbridge.tens.decode_frames((build / "answer.zio").read_bytes()))
            ran.tensors = [np.from_dlpack(t) for t in message.tensors]
        return ran

    return answer


def strides(array):
    return [s // array.itemsize for s in array.strides]


@pytest.mark.parametrize("program", PROGRAMS)
def test_boost_computes_what_numpy_does(answer, build, program):
    assert b"__asan_init" in (build / program).read_bytes()
    numbers = np.arange(24, dtype=np.int32) * 7 - 50
    for shape, order in [((3, 2, 4), (2, 0, 1)), ((4, 3, 2), (0, 1, 2)), ((1, 24, 1), (1, 2, 0)), ((2, 0, 3), (2, 1, 0))]:
        array = numbers[: np.prod(shape)].reshape(shape).transpose(order)[::-1]
        ran = answer(program, array)
        assert ran.returncode == 0, ran.stderr
        doubled, sums = ran.tensors
        np.testing.assert_array_equal(doubled, array * 2)
        np.testing.assert_array_equal(sums, array.sum(axis=0) * 2.0)
        assert "on the memory that was read: true" in ran.stdout or array.size == 0
        assert "parts are where the arrays are: true" in ran.stdout or array.size == 0


def test_every_order_and_direction_is_viewed_where_it_lies(answer):
    numbers = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for order, steps in itertools.product(itertools.permutations(range(3)), itertools.product((1, -1), repeat=3)):
        array = numbers.transpose(order)[tuple(slice(None, None, step) for step in steps)]
        ran = answer("multiarray", array)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines()[0].endswith("strides " + " ".join(map(str, strides(array))))
        assert ran.stdout.splitlines()[1].endswith("true")
        np.testing.assert_array_equal(ran.tensors[0], array * 2)
        assert strides(ran.tensors[0]) == strides(array)


@pytest.mark.parametrize("array", [np.zeros((2, 3), np.int32), np.zeros((1, 2, 3), np.uint32), np.zeros((1, 2, 3), np.int64)])
def test_other_types_and_ranks_are_refused(answer, array):
    ran = answer("multiarray", array)
    assert ran.returncode == 1
    assert "of another rank" in ran.stderr or f"the elements are {array.dtype}, not int32" in ran.stderr


OTHERS = """
#include "multiarray.hpp"
#include <cstring>

template <class T, size_t N>
static bool there_and_back(const boost::general_storage_order<N> &storage) {
  boost::array<size_t, N> shape;
  for (size_t d = 0; d < N; d++) shape[d] = d + 2;
  auto owned = std::make_unique<boost::multi_array<T, N>>(shape, storage);
  auto &array = *owned;
  dlbridge::tensor tensor = lend(std::move(owned));
  auto seen = view<T, N>(tensor);
  return seen.data() == array.data() && seen.num_elements() == array.num_elements() &&
         std::equal(seen.strides(), seen.strides() + N, array.strides());
}

static const char *refused(uint64_t flags, int64_t stride) {
  float memory[8] = {};
  auto tensor = dlbridge::tensor::lend(memory + 4, {2}, nullptr, {stride}, flags);
  try {
    view<float, 1>(tensor);
  } catch (const std::runtime_error &error) {
    static std::string what;
    return (what = error.what()).c_str();
  }
  return "no";
}

int main() {
  int order[] = {1, 3, 0, 2};
  bool ascend[] = {true, false, false, true};
  if (!there_and_back<double, 4>({order, ascend}) || !there_and_back<uint8_t, 2>(boost::fortran_storage_order()) ||
      !there_and_back<int64_t, 1>(boost::c_storage_order()))
    return 1;
  if (strcmp(refused(0, 1), "no") || strcmp(refused(0, -1), "no")) return 2;
  if (strcmp(refused(0, 2), "a layout with gaps") || strcmp(refused(0, -3), "a layout with gaps")) return 3;
  if (!strstr(refused(DLPACK_FLAG_BITMASK_READ_ONLY, 1), "the tensor is read-only")) return 4;
}
"""


def test_every_type_and_rank_goes_there_and_back_but_gaps_and_read_only_memory(run, build):
    (build / "others.cpp").write_text(OTHERS)
    ran = run(
        "c++ -std=c++17 build/others.cpp -o build/others -Iexamples/multiarray -isystem build/boost/usr/include "
        "-Ibuild/usr/include/dlbridge -Lbuild/usr/lib -ldlbridge -ldlbridge_tensor -Wl,-rpath,$PWD/build/usr/lib && build/others"
    )
    assert (ran.returncode, ran.stderr) == (0, "")
