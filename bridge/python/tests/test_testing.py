"""dlbridge.testing: which values count as equal or close, and the texts of the errors."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import dlbridge
from dlbridge.testing import assert_allclose, assert_equal

nan, inf = math.nan, math.inf


def test_equal_takes_tensors_arrays_numbers_and_lists():
    a = np.arange(6, dtype="int16").reshape(2, 3)
    t = dlbridge.from_dlpack(a)
    for other in (t, a, a.tolist(), [a[0], t[1]], a.astype("float64")):
        assert_equal(t, other)
        assert_equal(other, t)
    assert_equal(t.transpose(), a.T)
    assert_equal(t[1, 2], 5)
    assert_equal([nan, 0.0, inf], np.array([nan, -0.0, inf]))
    assert_equal(dlbridge.empty((0, 2), "int8"), np.empty((0, 2)))
    assert_equal(dlbridge.from_dlpack(np.array([2**63 - 1])), [2**63 - 1])


@pytest.mark.parametrize(
    ("actual", "desired", "says"),
    [
        ([1, 2], [1, 3], "1 of 2 elements differ:\n[1]: 2, not 3"),
        ([[1, 2], [3, 4]], [[1, 2], [9, 4]], "1 of 4 elements differ:\n[1, 0]: 3, not 9"),
        (1, 2, "1 of 1 elements differ:\n[]: 1, not 2"),
        ([0] * 7, [1] * 7, "7 of 7 elements differ:\n[0]: 0, not 1\n[1]: 0, not 1\n[2]: 0, not 1\n[3]: 0, not 1\n[4]: 0, not 1\n..."),
        ([1, 2], [1, 2, 3], "the shape is (2,), not (3,)"),
        ([1], 1, "the shape is (1,), not ()"),
        (np.empty((0, 2)), np.empty((0, 5)), "the shape is (0, 2), not (0, 5)"),
        (np.empty((2, 0, 3)), np.empty((2, 0)), "the shape is (2, 0, 3), not (2, 0)"),
        ([nan], [1.0], "[0]: nan, not 1.0"),
        ([2**63 - 1], [2**63 - 2], "[0]: 9223372036854775807, not 9223372036854775806"),
    ],
)
def test_equal_says_what_differs(actual, desired, says):
    with pytest.raises(AssertionError, match=f"{re.escape(says)}$"):
        assert_equal(np.array(actual), desired)


def test_arguments_that_are_no_tensors():
    with pytest.raises(ValueError, match=re.escape("shapes [(1,), (2,)]")):
        assert_equal([[1], [1, 2]], [1])
    with pytest.raises((TypeError, AttributeError)):
        assert_equal("text", [1])


def test_allclose():
    assert_allclose(np.float32(100.5), 100, rtol=0.005)
    assert_allclose([0.0, nan, inf, 1 + 1e-8], [0.5, nan, inf, 1], atol=0.5)
    assert_allclose([3 + 4j], [3 + 5j], rtol=0.2)
    assert_allclose([complex(1.6e308, 1.7e308), complex(inf, nan)], [complex(1.7e308, 1.7e308), complex(1, nan)], rtol=0.1)
    assert_allclose([2**63 - 1, 7], [2**63 - 2, 7.5], atol=1)
    assert_equal([True], np.array([True]))
    for actual, desired, rtol, atol in (
        ([100.5], [100.0], 0.004, 0),
        ([0.0], [0.5], 0, 0.4),
        ([inf], [1.0], 1, 1),
        ([inf], [-inf], 1, 1),
        ([1.0], [nan], 1, 1),
        ([2**63 - 1], [2.0**63], 0, 0),
        ([complex(1.6e308, 1.7e308)], [complex(1.7e308, 1.7e308)], 0.01, 0),
        ([complex(inf, nan)], [complex(inf, 1)], 1, 1),
    ):
        says = f"1 of 1 elements differ by more than {atol} + {rtol} * abs(desired):\n[0]: {actual[0]}, not {desired[0]}"
        with pytest.raises(AssertionError, match=f"^{re.escape(says)}$"):
            assert_allclose(actual, desired, rtol, atol)
