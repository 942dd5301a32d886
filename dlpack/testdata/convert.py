"""Writes convert.json: what NumPy and ml_dtypes make of small floats, and of the float32 around them.

For each type `decoded` is the SHA-256 of float32(code) for all codes from 0 on, and `encoded` that of the codes which
the following float32 become: each number of the type that is not below 0, in rising order, and the middle between it
and the next one, each with the float32 before and behind it; then the same with the sign changed; then 0, -0, the
infinities, the NaNs 0x7fc00000 and 0xffc00000, the smallest float32 and the largest. For float8_e8m0fnu subnormal float32 are left
out: ml_dtypes rounds those up, whatever is nearer.

    python3 convert.py > convert.json        (numpy 2.4.6, ml_dtypes 0.6.0)
"""

import hashlib
import json

import ml_dtypes
import numpy as np

BITS = {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float16": 16, "bfloat16": 16}
NAMES = [*BITS, *("float8_" + kind for kind in (
    "e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"))]


def sha(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


def around(values):
    middles = (values[:-1].astype(np.float64) + values[1:]) / 2
    rows = []
    for i, value in enumerate(values):
        rows.append(value)
        if i + 1 < len(values):
            rows.append(np.float32(middles[i]))
    rows = np.array(rows, np.float32)
    triples = np.stack([np.nextafter(rows, np.float32(-np.inf)), rows, np.nextafter(rows, np.float32(np.inf))], 1).ravel()
    special = np.array([0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 1, 0x7F7FFFFF],
                       np.uint32).view(np.float32)
    return np.concatenate([triples, -triples, special])


golden = {}
for name in NAMES:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    bits = BITS.get(name, 8)
    code = np.uint16 if bits == 16 else np.uint8
    decoded = np.arange(2**bits, dtype=code).view(dtype).astype(np.float32)
    values = np.unique(np.abs(decoded[np.isfinite(decoded)]))
    inputs = around(values)
    if name == "float8_e8m0fnu":
        inputs = inputs[(inputs == 0) | ~(np.abs(inputs) < np.finfo(np.float32).smallest_normal)]
    with np.errstate(all="ignore"):
        encoded = inputs.astype(dtype).view(code)
    golden[name] = {"decoded": sha(decoded), "encoded": sha(encoded)}
print(json.dumps(golden, indent=2))
