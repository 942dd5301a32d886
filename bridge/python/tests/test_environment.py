"""Every operation with little memory, stack or address space, and few processors or file descriptors."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import HERE
from dlbridge import _core

# Every operation, in a function that keeps no object. `alive` returns the counters of live objects, and of references to the inputs.
OPERATIONS = """
    import array, ctypes, gc, json, os, resource, sys, threading, weakref
    import numpy as np
    import dlbridge
    from dlbridge import _core, load, tens
    sys.path.append(sys.argv[1])
    from formats import FORMATS, VALUES

    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    data = bytearray(64)
    tensor, matrix = dlbridge.from_buffer(data), dlbridge.from_buffer(data, "float32", (4, 4))
    wide = dlbridge.from_buffer(data, "bfloat16", (4, 8))  # for other types NumPy would write the text, and end the process
    shape = (3, 4)
    frames = [bytes(frame) for frame in tens.encode([numbers], metadata={"a": [1]})]
    packed = tens.encode_frames(frames)
    only = {"dtype": "?", "word": 0, "shape": [], "part": 1, "metadata": {"a": [1]}}
    label = {"TENS": {"tensors": [only, *json.loads(frames[0][8:])["TENS"]["tensors"]]}}
    relayed = tens.decode(tens.Message(label=label, parts=[*frames[2:], b""]).frames())
    go = load(os.environ.get("DLBRIDGE_LIBRARY") or os.path.join(os.path.dirname(_core.__file__), "_lib", "libdlbridge.so"))
    release = dlbridge.wrap(go.dlb_tensor_release, args={"x": "tensor"}, returns=None)
    release_converted = dlbridge.wrap(go.dlb_tensor_release, args=[dlbridge.converted("float64", contiguous=True)], returns=None)

    absolute = dlbridge.wrap(ctypes.CDLL(None).abs, args={"n": ctypes.c_int}, returns=ctypes.c_int)

    def refused(function, *args, **keywords):
        sys._getframe()  # makes the frame: Python 3.11 loses an exception if there is no memory for the frame in its traceback
        try:
            function(*args, **keywords)
        except (TypeError, OverflowError):
            return
        raise AssertionError("not refused")

    operations = {
        "from_buffer": lambda: dlbridge.from_buffer(data),
        "from_buffer with a shape": lambda: dlbridge.from_buffer(data, "int16", (4, 8)),
        "from_buffer with five dimensions": lambda: dlbridge.from_buffer(data, "int8", (2, 2, 2, 2, 4)),
        "from_dlpack": lambda: dlbridge.from_dlpack(numbers),
        "from_dlpack of a copy": lambda: dlbridge.from_dlpack(numbers, copy=True),
        "from_dlpack of a tensor": lambda: dlbridge.from_dlpack(tensor),
        "from_dlpack of the form of before 1.0": lambda: dlbridge.from_dlpack(tensor.__dlpack__()),
        "from_address": lambda: dlbridge.from_address(dlbridge.to_address(numbers)),
        "empty": lambda: dlbridge.empty(shape, "float32"),
        "an array": lambda: np.from_dlpack(dlbridge.from_dlpack(numbers)),
        "a memoryview": lambda: memoryview(dlbridge.from_dlpack(numbers)).tolist(),
        "attributes": lambda: (tensor.shape, tensor.strides, tensor.dtype, tensor.device, tensor.data_ptr, repr(wide), tensor.dtype.itemsize, hasattr(tensor, "sum")),
        "indexing": lambda: (matrix[0], matrix[1:, ::-1], matrix[..., None, 0], [row[0] for row in matrix], len(matrix)),
        "views": lambda: (matrix.T, matrix.flip(0), matrix.reshape(-1), matrix.broadcast_to((2, *matrix.shape)), matrix.contiguous(), matrix.squeeze(), matrix.ravel(), matrix.swapaxes(0, -1), matrix.moveaxis(0, -1), matrix.view("uint8")),
        "copies": lambda: (matrix.copy(), matrix.flatten(), dlbridge.zeros(matrix.shape, float), dlbridge.asarray([[1, 2.5]], "float32"), matrix.T.reshape(-1), matrix.convert("bfloat16"), matrix.convert(out=np.zeros(matrix.shape)), matrix.T.contiguous()),
        "numbers": lambda: (matrix.tolist(), matrix.item(1), float(matrix[0, 0]), bool(matrix[0, 1]), bytes(matrix)),
        "its array": lambda: (matrix.numpy(), dlbridge.from_buffer(data, "bfloat16").__array__()),
        "arrays of Arrow": lambda: (matrix.__arrow_c_array__(), matrix.T.__arrow_c_array__()),
        "a weak reference": lambda: weakref.ref(dlbridge.from_buffer(data))(),
        "from_dlpack of numbers": lambda: (dlbridge.from_dlpack(2.5), dlbridge.from_dlpack(3), dlbridge.from_dlpack(np.int8(3))),
        "a data type that is no str": lambda: dlbridge.empty(shape, np.float32),
        "a part of a buffer": lambda: dlbridge.from_buffer(data, "int16", (4,), offset=8),
        "a call of a C function": lambda: (release(numbers), release(x=numbers)),
        "calls that are refused": lambda: (refused(release, y=numbers), refused(release), refused(release, [1]), refused(absolute, n=1 << 40), refused(absolute, "1")),
        "a call that converts its argument": lambda: release_converted(matrix.T),
        "counters": lambda: dlbridge.counters(),
        "tens.encode": lambda: tens.encode([numbers, numbers[::2]], metadata={"a": [1]}),
        "tens.encode, named": lambda: tens.encode({"x": numbers}),
        "tens.encode, relay": lambda: tens.encode([None, numbers], relay=relayed),
        "tens.decode": lambda: (message := tens.decode(frames), repr(message), message.tensors),
        "tens.decode, message_only": lambda: tens.decode(frames, message_only=True).parts,
        "tens.encode_frames": lambda: tens.encode_frames(frames),
        "tens.decode_frames": lambda: tens.decode_frames(packed),
    }

    def add(format):
        encoded, module = format.encode(numbers), format.module
        operations[f"{format} encodes"] = lambda: format.encode(numbers)
        operations[f"{format} decodes"] = lambda: format.decode(encoded)
        if hasattr(module, "decode_tensor"):
            operations[f"{format} decodes a tensor"] = lambda: module.decode_tensor(encoded)
        for elements in format.elements:
            def add_elements(elements, data):
                operations[f"{format} encodes {elements.type}"] = lambda: format.encode(elements)
                operations[f"{format} decodes {elements.type}"] = lambda: module.decode_elements(data)
            add_elements(elements, format.encode(elements))
        if format.first:
            several = b"".join([encoded, *map(format.encode, format.elements), encoded])
            operations[f"{format} decodes several"] = lambda: list(module.decode_all(several))
        for name, call in format.more.items():
            operations[f"{format}.{name}"] = lambda: call(numbers)

    for format in FORMATS:
        add(format)

    inputs = numbers, data, tensor, matrix, shape, frames, packed

    def alive():
        return dlbridge.counters(), _core.library_counters(), [*map(sys.getrefcount, inputs)]

    def every(rounds):
        for _ in range(rounds):
            for operation in operations.values():
                operation()
        gc.collect()

    every(3)
    before = alive()
"""


def run_script(script: str, before: str = "", **environment: str) -> str:
    """Returns the output of the operations and a script. A shell first runs `before`."""
    command = ["sh", "-c", f'{before} exec "$0" "$@"', sys.executable, "-c", textwrap.dedent(OPERATIONS) + textwrap.dedent(script), HERE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("before", "environment"),
    [
        ("", {"GOMAXPROCS": "1"}),
        ("", {"GODEBUG": "asyncpreemptoff=1"}),
        ("ulimit -s 256 &&", {}),
        pytest.param("ulimit -v 4194304 &&", {"OPENBLAS_NUM_THREADS": "1"}, marks=pytest.mark.memory),
    ],
    ids=["one processor", "no preemption by signals", "stacks of 256 KiB", "4 GiB of addresses"],
)
def test_every_operation_works_in_limited_environments(before, environment):
    out = run_script(
        """
        threads = [threading.Thread(target=every, args=(20,)) for _ in range(4)]
        for thread in threads: thread.start()
        every(20)
        for thread in threads: thread.join()
        assert alive() == before
        print("done")
        """,
        before,
        **environment,
    )
    assert out == "done\n"


def test_every_operation_works_on_small_stacks():
    out = run_script("""
        threading.stack_size(256 << 10)
        def work():
            every(20)
            done.append(1)
        done = []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert alive() == before
        print(len(done))
    """)
    assert out == "4\n"


def test_every_operation_works_without_file_descriptors():
    out = run_script("""
        with open("/dev/null") as file: next = file.fileno()
        for free in 3, 2, 1, 0:
            resource.setrlimit(resource.RLIMIT_NOFILE, (next + free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            every(20)
            assert alive() == before
        try:
            load(_core.__file__)
        except RuntimeError as error:
            print(error)
    """)
    assert "the first use of a format has loaded" in out


@pytest.mark.long
def test_failed_allocations_are_memory_errors_and_leave_nothing(tmp_path):
    """Each allocation of each operation fails once: those of Python, of the extension and of the Go library."""
    source, preload = pathlib.Path(__file__).with_name("failing_malloc.c"), tmp_path / "failing_malloc.so"
    subprocess.run(
        [*os.environ.get("CC", "cc").split(), "-std=gnu11", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
         str(source), "-o", str(preload), "-ldl"],
        check=True,
    )  # fmt: skip
    out = run_script(
        """
        failing, asked, kept = (ctypes.c_int64.in_dll(ctypes.CDLL(None), f"memory_{name}") for name in ("failing", "asked", "kept"))
        wrong, total = [], 0
        for name, operation in operations.items():
            operation()
            number = 0
            while asked.value >= number:
                number += 1
                at = kept.value
                raised = result = None
                asked.value = 0
                failing.value = number
                try:
                    result = operation()
                except MemoryError:
                    pass
                except BaseException as error:
                    raised = error
                failing.value = 0
                if raised is not None:
                    wrong.append((name, number, repr(raised)))
                raised = result = None
                gc.collect()
                if alive() != before or kept.value != at:
                    wrong.append((name, number, alive(), before, kept.value - at))
                    before = alive()
            total += number
        print(json.dumps([total, wrong]))
        """,
        LD_PRELOAD=str(preload),
        PYTHONMALLOC="malloc",
    )
    total, wrong = json.loads(out)
    assert wrong == []
    assert total > 300


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LD_PRELOAD and ELF")
@pytest.mark.parametrize(("offset", "report"), [(8, None), (12, "heap-buffer-overflow"), (-4, "use-after-poison")])
def test_writes_outside_of_new_memory_are_reported(offset, report):
    """Here AddressSanitizer is only in the process, not in the extension."""
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    script = f"import ctypes, dlbridge; x = dlbridge.empty((3,), 'float32'); ctypes.memset(x.data_ptr + {offset}, 1, 4)"
    environment = {**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False)
    if report is None:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode != 0 and f"AddressSanitizer: {report}" in done.stderr


def test_a_failed_assertion_in_a_thread_fails_its_test(tmp_path):
    test = tmp_path / "test_thread.py"
    test.write_text("import threading\n\ndef fails():\n    assert 1 == 2\n\ndef test():\n    t = threading.Thread(target=fails)\n    t.start()\n    t.join()\n")
    config = ["-c", HERE.parent / "pyproject.toml", "--rootdir", tmp_path, "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *config, test]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and "PytestUnhandledThreadExceptionWarning" in done.stdout and "1 failed" in done.stdout, done.stdout


@pytest.mark.skipif(shutil.which("ldd") is None, reason="asks ldd, which only Linux has")
def test_the_extension_names_the_libraries_of_all_functions_that_it_calls():
    """ldd -r lists functions that no library of the file has. The functions of Python are in the program."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(["ldd", "-r", _core.__file__], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    names = re.findall(r"undefined symbol: (\w+)", done.stdout)
    assert names and [name for name in names if not name.startswith(("Py", "_Py"))] == []
