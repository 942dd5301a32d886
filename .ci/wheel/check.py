"""Uses the installed wheel in an environment that has NumPy, but neither Go nor a compiler."""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys


def threads():
    return len(os.listdir("/proc/self/task"))


def mapped():
    """Returns the Go libraries in this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps if "/libdlbridge.so" in line}


assert not any(map(shutil.which, ("go", "cc", "gcc", "clang"))), os.environ["PATH"]
before = threads()
import dlbridge  # noqa: E402

assert (threads(), mapped()) == (before, set()), "import dlbridge starts Go"
assert "numpy" not in sys.modules
package = pathlib.Path(dlbridge.__file__).parent
assert package.is_relative_to(sys.prefix), package
tensor = dlbridge.empty((2, 3), "float32")
assert dlbridge.from_dlpack(tensor[1]).shape == (3,)
assert (threads(), mapped()) == (before, set()), "tensors start Go"

import numpy as np  # noqa: E402

array = np.from_dlpack(tensor)
array[...] = [[1, 2, 3], [4, 5, 6]]
assert array.ctypes.data == tensor.data_ptr and tensor.tolist() == array.tolist()
shared = dlbridge.from_dlpack(array[:, ::2])
assert (shared.data_ptr, shared.tolist()) == (tensor.data_ptr, [[1, 3], [4, 6]])
assert mapped() == set()

frames = dlbridge.tens.encode([tensor, array.T], metadata={"run": 7})
message = dlbridge.tens.decode(dlbridge.tens.decode_frames(dlbridge.tens.encode_frames(frames)))
assert message.metadata == {"run": 7}
assert [x.tolist() for x in message.tensors] == [array.tolist(), array.T.tolist()]
sys.path.append(str(pathlib.Path(__file__).parents[2] / "bridge" / "python" / "tests"))
from formats import FORMATS  # noqa: E402

for format in FORMATS:
    assert format.decode(format.encode(tensor)).tolist() == array.tolist(), format
    assert all(format.decode(format.encode(elements)) == elements for elements in format.elements), format
assert mapped() == {str(package / "_lib" / "libdlbridge.so")}, mapped()
assert threads() > before

report = subprocess.run([sys.executable, "-I", "-m", "dlbridge"], check=True, stdout=subprocess.PIPE, text=True).stdout
assert str(package / "_lib" / "libdlbridge.so") in report, report
assert re.search(r"^torch: +not found$", report, re.MULTILINE), report

files = {str(file) for file in importlib.metadata.files("dlbridge")}
assert {"dlbridge/py.typed", "dlbridge/_include/dlbridge.h", "dlbridge/_include/dlpack/dlpack.h"} <= files, files
assert any(file.endswith("/LICENSE") for file in files), files
assert os.path.isfile(os.path.join(dlbridge.get_include(), "dlbridge.hpp"))
