"""Writes convert.json: what NumPy and ml_dtypes make of numbers of 16 bits and fewer, and of float32.

For each type `decoded` is the SHA-256 of float32(code) for all codes from 0 on, and `encoded` that of the codes which
float32 become whose lower 12 bits are 0, 1 or all set, in rising order of their bits: every number of the type, every
middle between two, and the float32 before and behind each. For float8_e8m0fnu subnormal float32 are left out:
ml_dtypes rounds those up, whatever is nearer. `all` is that of the codes which all float32 become, for some types;
it takes minutes.

    python3 convert.py > convert.json        (numpy 2.4.6, ml_dtypes 0.6.0, x86-64)
"""

import hashlib
import json

import ml_dtypes
import numpy as np

BITS = {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float16": 16, "bfloat16": 16,
        "int2": 2, "uint2": 2, "int4": 4, "uint4": 4}
NAMES = [*BITS, *("float8_" + kind for kind in (
    "e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"))]
ALL = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int4")
PART = 1 << 22


def encode(bits, dtype, code):
    return np.asarray(bits, np.uint32).view(np.float32).astype(dtype).view(code).tobytes()


np.seterr(all="ignore")
lower = np.array([0, 1, 0xFFF], np.uint32)
inputs = (np.arange(1 << 20, dtype=np.uint32)[:, None] << 12 | lower).ravel()
golden = {}
for name in NAMES:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    bits = BITS.get(name, 8)
    code = np.uint16 if bits == 16 else np.uint8
    decoded = np.arange(2**bits, dtype=code).view(dtype).astype(np.float32)
    some = inputs
    if name == "float8_e8m0fnu":
        magnitude = np.abs(inputs.view(np.float32))
        some = inputs[(magnitude == 0) | ~(magnitude < np.finfo(np.float32).smallest_normal)]
    golden[name] = {"decoded": hashlib.sha256(decoded.tobytes()).hexdigest(),
                    "encoded": hashlib.sha256(encode(some, dtype, code)).hexdigest()}
    if name in ALL:
        sha = hashlib.sha256()
        for first in range(0, 1 << 32, PART):
            sha.update(encode(np.arange(first, first + PART), dtype, code))
        golden[name]["all"] = sha.hexdigest()
print(json.dumps(golden, indent=2))
