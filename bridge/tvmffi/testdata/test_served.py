"""A module of TVM-FFI that is written in Go, as Python sees it: no glue between them."""

import builtins
import gc
import pathlib
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest
import tvm_ffi

HERE = pathlib.Path(__file__).parent


def address(array):
    return array.__array_interface__["data"][0]


def test_numpy_arrays_are_written_in_place(served):
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    assert served.scale(x, y, 2.5) is None
    assert (y == 2.5 * x).all()
    assert served.describe(y) == f"float32[100][1] {address(y)}"


def test_layouts_are_described_as_they_are(served):
    x = np.zeros((4, 6), np.int16)
    assert served.describe(x[::2, ::-1]) == f"int16[2 6][12 -1] {address(x[::2, ::-1])}"
    assert served.describe(x.T) == f"int16[6 4][1 6] {address(x)}"
    assert served.describe(np.zeros((0, 3), np.float64)).startswith("float64[0 3]")
    assert served.describe(np.array(1.5)).startswith("float64[][]")


def test_tvm_tensors_are_written_in_place(served):
    y = np.zeros(10, np.float32)
    served.scale(tvm_ffi.from_dlpack(np.ones(10, np.float32)), tvm_ffi.from_dlpack(y), 3)
    assert (y == 3).all()


def test_values_make_the_round_trip(served):
    for value in [None, 7, -(2**63), 2.5, True, "", "short", "a longer string: \u00e4\u00f6\u00fc", b"", b"short", b"a longer byte string"]:
        assert served.echo(value) == value
        assert type(served.echo(value)) is type(value) or isinstance(served.echo(value), type(value))
    assert str(served.echo(tvm_ffi.dtype("bfloat16"))) == "bfloat16"
    assert served.echo(tvm_ffi.device("cuda", 3)) == tvm_ffi.device("cuda", 3)
    x = np.zeros(10, np.float32)
    assert address(np.from_dlpack(served.echo(x))) == address(x)
    assert list(served.echo([1, "two", 3.0])) == [1, "two", 3.0]


@pytest.mark.parametrize("kind", ["ValueError", "TypeError", "KeyError", "IndexError", "AttributeError", "AssertionError", "MemoryError", "RuntimeError"])
def test_errors_arrive_as_exceptions_of_their_kind(served, kind):
    with pytest.raises(getattr(builtins, kind), match="as asked for") as caught:
        served.fail(kind)
    assert type(caught.value).__name__ == kind


def test_other_errors_are_runtime_errors(served):
    for kind in ["plain", "OfMyOwn", "BufferError"]:
        with pytest.raises(RuntimeError, match="as asked for") as caught:
            served.fail(kind)
        assert type(caught.value) is RuntimeError


class Registered(LookupError):
    pass


class Unregistered(ValueError):
    pass


@pytest.fixture
def kinds():
    """The classes that TVM-FFI knows, which are as they were afterwards."""
    known = tvm_ffi.core.ERROR_NAME_TO_TYPE.copy(), tvm_ffi.core.ERROR_TYPE_TO_NAME.copy()
    yield tvm_ffi.register_error
    for table, before in zip((tvm_ffi.core.ERROR_NAME_TO_TYPE, tvm_ffi.core.ERROR_TYPE_TO_NAME), known, strict=True):
        table.clear()
        table.update(before)


def test_errors_of_registered_classes_arrive_as_such(served, kinds):
    kinds("BufferError", BufferError)
    kinds(Registered)
    for kind, expected in [("BufferError", BufferError), ("Registered", Registered)]:
        with pytest.raises(expected, match="as asked for") as caught:
            served.fail(kind)
        assert type(caught.value) is expected


@pytest.mark.parametrize("through", ["apply", "apply_wrapped"])
def test_exceptions_of_python_pass_through_go(served, kinds, through):
    kinds(Registered)

    def refuse(error):
        def function(n):
            raise error(f"not {n}")

        return function

    for error, expected in [(IndexError, IndexError), (Registered, Registered), (Unregistered, RuntimeError)]:
        with pytest.raises(expected, match="not 3") as caught:
            getattr(served, through)(refuse(error), 3)
        assert type(caught.value) is expected
        assert "in function" in "".join(traceback.format_exception(caught.value)), "the frames of both"


@pytest.mark.parametrize(("how", "text"), [("nil", "nil pointer dereference"), ("index", "index out of range"), ("panic", "panic: as asked for")])
def test_panics_are_runtime_errors_with_the_frames_of_go(served, how, text):
    for _ in range(3):
        with pytest.raises(RuntimeError, match=text) as caught:
            served.fail(how)
    assert "in main.fail" in "".join(traceback.format_exception(caught.value))
    assert served.nop() is None


def test_a_panic_has_the_frames_of_go(served):
    with pytest.raises(RuntimeError, match="panic: as asked for") as caught:
        served.fail("panic deep")
    frames = traceback.extract_tb(caught.value.__traceback__)[-3:]
    lines = (HERE / "served/main.go").read_text().splitlines()
    assert [frame.name for frame in frames] == ["main.fail", "main.outer", "main.inner"]
    assert [lines[frame.lineno - 1].strip() for frame in frames] == [
        "outer()", "func outer() { inner() }", 'func inner() { panic("as asked for") }',
    ]  # fmt: skip
    assert all(frame.filename.endswith("/served/main.go") for frame in frames)


def test_arguments_that_do_not_agree_are_refused(served):
    x, y = np.ones(4, np.float32), np.ones(5, np.float32)
    before = sys.getrefcount(x)
    for error, text, arguments in [
        (TypeError, "scale: takes 3 arguments, got 2", (x, x)),
        (TypeError, "scale: argument 2: it is a string, want a float", (x, x, "much")),
        (TypeError, "scale: argument 0: the tensor has float64, want float32", (x.astype(np.float64), x, 1)),
        (TypeError, "scale: argument 1: it is None, want a tensor", (x, None, 1)),
        (ValueError, "scale: 4 elements, and room for 5", (x, y, 1)),
        (ValueError, "scale: argument 0: strides .* are not row-major", (y[::2], x, 1)),
    ]:
        with pytest.raises(error, match=text):
            served.scale(*arguments)
    del arguments
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("ours", [False, True])
def test_returned_tensors_live_while_python_has_them(served, ours):
    before = served.live()
    array = np.from_dlpack(served.make(1000, ours))
    assert served.live() > before
    for _ in range(20):
        gc.collect()
        served.collect()
        np.from_dlpack(served.make(1000, ours))
    assert (array == np.arange(1000)).all()
    array[0] = 7
    del array
    assert served.live() == before


def test_kept_tensors_live_while_go_has_them(served):
    x = np.ones(1000, np.float32)
    before = sys.getrefcount(x)
    served.keep(x)
    assert sys.getrefcount(x) > before
    assert served.let_go() == 1000
    assert sys.getrefcount(x) == before
    served.keep(np.ones(500, np.float32))
    gc.collect()
    assert served.let_go() == 500


def test_go_calls_python(served):
    assert served.apply(lambda n: n + 1, 41) == 42

    def refuse(n):
        raise KeyError(f"not {n}")

    with pytest.raises(KeyError, match="not 3"):
        served.apply(refuse, 3)


def test_goroutines_call_python_at_once(served):
    for _ in range(20):
        assert served.apply_at_once(lambda n: 2 * n, 32) == 32 * 31

    def refuse(n):
        raise KeyError(f"not {n}") if n == 17 else IndexError(f"not {n}")

    with pytest.raises((KeyError, IndexError), match="not [0-9]+"):
        served.apply_at_once(refuse, 32)
    sums = []
    threads = [threading.Thread(target=lambda: sums.append(served.apply_at_once(lambda n: n, 8))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == 8 * [28]


def test_arrays_may_end_on_threads_of_go(served):
    """NumPy's deleter takes the GIL, which the caller has let go of."""
    x = np.ones(1000, np.float32)
    before = sys.getrefcount(x)
    for _ in range(20):
        served.keep(x)
        assert sys.getrefcount(x) == before + 1
        served.let_go_elsewhere()
        assert sys.getrefcount(x) == before


def test_two_modules_in_one_process_call_each_other(library, tmp_path):
    file = tmp_path / "libother.so"  # with a Go runtime of its own
    file.write_bytes(library.read_bytes())
    child(
        "import gc, sys, numpy as np, tvm_ffi\n"
        "one, other = (tvm_ffi.load_module(file) for file in sys.argv[1:])\n"
        "assert one.apply(lambda n: other.apply(lambda k: one.apply(lambda z: 2 * z, k), n), 4) == 8\n"
        "for a, b in ((one, other), (other, one)):\n"
        "    for kind in ('KeyError', 'nil', 'panic'):\n"
        "        try: a.apply(lambda n: b.fail(kind), 1)\n"
        "        except (KeyError if kind == 'KeyError' else RuntimeError): pass\n"
        "        else: raise AssertionError(kind)\n"
        "    for ours in (False, True):\n"
        "        b.keep(a.make(1000, ours))\n"
        "        for _ in range(20): a.collect(), b.collect()\n"
        "        assert b.let_go() == 499500\n"
        "assert (one.live(), other.live()) == (0, 0)\n",
        library,
        file,
    )


def test_registered_functions_are_global(served):
    served.register("dlbridge.twice")
    twice = tvm_ffi.get_global_func("dlbridge.twice")
    assert twice(21) == 42
    with pytest.raises(TypeError, match="takes 1 argument, got 0"):
        twice()
    with pytest.raises(RuntimeError, match="already registered"):
        served.register("dlbridge.twice")


def test_threads_call_at_once(served):
    failures = []

    def work(k):
        x, y = np.full(1000, k, np.float32), np.zeros(1000, np.float32)
        for _ in range(200):
            served.scale(x, y, 2)
            if not (y == 2 * k).all():
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# A forked child is refused what needs Go, at once and whatever the parent was doing, and uses and drops what it
# has inherited.
FORK = """
import os, signal, sys, threading, numpy as np, tvm_ffi
served = tvm_ffi.load_module(sys.argv[1])

def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            work()
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def refused(call, *args):
    try:
        call(*args)
    except RuntimeError as error:
        assert "does not survive a fork" in str(error), error
    else:
        raise AssertionError("it was called")

"""


def test_forked_children_are_refused_while_go_starts(library):
    child(FORK + "child(lambda: refused(served.nop))", library)  # right after it was loaded


def test_forked_children_are_refused_while_go_is_busy(library):
    child(
        FORK
        + """
x, stop = np.ones(1 << 20, np.float32), False
def work():
    y = np.zeros_like(x)
    while not stop:
        served.scale(x, y, 2)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    served.register("dlbridge.twice")
    twice = tvm_ffi.get_global_func("dlbridge.twice")
    for _ in range(10):
        child(lambda: (refused(served.nop), refused(served.scale, x, x, 2), refused(served.make, 10, True), refused(twice, 1)))
    assert twice(21) == 42
finally:
    stop = True
    for thread in threads:
        thread.join()
""",
        library,
    )


def test_forked_children_use_and_drop_what_they_inherit(library):
    child(
        FORK
        + """
array = [np.from_dlpack(served.make(1000, ours)) for ours in (False, True)]
before = served.live()
kept = np.ones(1000, np.float32)
served.keep(kept)
twice = (served.register("dlbridge.twice"), tvm_ffi.get_global_func("dlbridge.twice"))[1]
def inherit():
    global array, kept, twice
    for a in array:
        assert a.sum() == 499500
    tvm_ffi.remove_global_func("dlbridge.twice")
    del a, array, kept, twice
child(inherit)
for a in array:
    assert a.sum() == 499500
assert served.let_go() == 1000
del a, array
assert served.live() < before
""",
        library,
    )


def test_children_that_load_the_library_themselves_are_served(library):
    child(
        "import os, sys, numpy as np, tvm_ffi\n"
        "if (pid := os.fork()) == 0:\n"
        "    y = np.zeros(3, np.float32)\n"
        "    tvm_ffi.load_module(sys.argv[1]).scale(np.ones(3, np.float32), y, 2)\n"
        "    os._exit(0 if (y == 2).all() else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n",
        library,
    )


# Neither in the process that loaded Go nor in a forked child is a function of it called, which would end the process.
def test_a_tvm_ffi_of_another_version_is_refused(library, tmp_path):
    other = tmp_path / "libtvm_ffi.so"
    include = HERE.parents[2] / "include"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{include}", "-o", other, HERE / "other.c"], check=True)
    child(
        """
import ctypes, os, signal, sys
other, served = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL), ctypes.CDLL(sys.argv[2])
def refused(why):
    result = (ctypes.c_uint64 * 2)()
    assert getattr(served, "__tvm_ffi_nop")(None, None, 0, result) == -1
    raised = ctypes.c_char_p.in_dll(other, "other_raised").value.decode()
    assert raised.startswith("RuntimeError: ") and why in raised, raised
if (pid := os.fork()) == 0:
    signal.alarm(20)
    refused("does not survive a fork")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
refused(sys.argv[1] + " has version 0.2.0, want 0.1.x")
""",
        other,
        library,
    )


def test_only_the_functions_are_exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = [line.split()[2] for line in out.splitlines()]
    assert names
    assert not [name for name in names if not name.startswith("__tvm_ffi_")]


def child(text, *arguments):
    ran = subprocess.run([sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_panic_is_survived_where_go_was_there_before_tvm_ffi(library):
    out = child(
        "import ctypes, sys; ctypes.CDLL(sys.argv[1]); import tvm_ffi\n"
        "try: tvm_ffi.load_module(sys.argv[1]).fail('nil')\n"
        "except RuntimeError as error: print(error)",
        library,
    )
    assert "nil pointer dereference" in out


def test_texts_that_are_not_utf8_arrive_as_far_as_they_can(served):
    with pytest.raises(KeyError, match="before \ufffd behind") as caught:
        served.fail("KeyError", b"before \xff\xfe behind")
    assert type(caught.value) is KeyError
    with pytest.raises(UnicodeDecodeError):  # by TVM-FFI: what is no text is for bytes
        served.text(b"a longer text \xff")
    assert served.text("a longer text: äöü".encode()) == "a longer text: äöü"


def test_what_is_in_containers_and_objects_of_python_passes_through(served):
    x, thing = np.zeros(4, np.float32), object()
    before = sys.getrefcount(x), sys.getrefcount(thing)
    for value in ([1, [2, [3, None]], {"a": [1, 2]}], {"a": 1, 2: None}, (1, (2,)), [[]], {}):
        assert str(served.echo(value)) == str(tvm_ffi.convert(value))
    assert address(np.from_dlpack(served.echo([x, x])[1])) == address(x)
    assert served.echo(thing) is thing
    assert served.echo(1j) == 1j
    assert served.echo(2**63) == 2**63
    assert (sys.getrefcount(x), sys.getrefcount(thing)) == before
    assert served.echo(served).fail is not None
    assert served.apply(served.echo(lambda n: n + 1), 1) == 2


@pytest.mark.parametrize("wrong", [None, 2**63, -(2**63) - 1, "x" * 1000, b"", [], [[1]], {}, object(), 1j, len, np.zeros(3)], ids=lambda w: repr(w)[:10])
def test_anything_is_refused_where_something_else_is_asked_for(served, wrong):
    x, before = np.ones(3, np.float32), served.live()
    with pytest.raises(TypeError, match="scale: argument 1: "):
        served.scale(x, wrong, 1)
    with pytest.raises(TypeError, match="describe: argument 0: " if not isinstance(wrong, np.ndarray) else "takes 1 argument, got 2"):
        served.describe(*[wrong] * (1 + isinstance(wrong, np.ndarray)))
    for count in (0, 1, 2, 4, 300):
        with pytest.raises(TypeError, match="scale: "):
            served.scale(*[wrong] * count)
    assert served.live() == before


def test_calls_may_go_to_and_fro_until_python_has_enough(served, monkeypatch):
    # What runs at the end of the stack, such as an audit hook of a framework, can fail there too; it is not what is tested.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    def down(n):
        return served.apply(down, n + 1) if n < 100 else n

    def bottomless(n):
        deepest[0] = n
        return served.apply(bottomless, n + 1)

    assert served.apply(down, 0) == 100
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)  # TVM-FFI takes time for tracebacks, and its square for long ones
    try:
        for run in (lambda work: work(), in_a_thread):
            deepest = [0]
            with pytest.raises(RuntimeError, match="recursion"):
                run(lambda: served.apply(bottomless, 0))
            assert deepest[0] > 50
    finally:
        sys.setrecursionlimit(limit)
    assert served.apply(down, 0) == 100


def in_a_thread(work):
    raised = []

    def run():
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise raised[0]


def test_exceptions_in_callbacks_may_come_of_calls_of_go(served):
    def again(n):
        try:
            served.fail("ValueError")
        except ValueError as error:
            raise IndexError(f"{n}: {error}") from error

    for _ in range(3):
        with pytest.raises(IndexError, match="7: as asked for"):
            served.apply(again, 7)


def test_functions_come_and_go_while_threads_call_them(served):
    """TVM-FFI's table has no lock: the program has one."""
    results, table, stop = [], threading.Lock(), threading.Event()

    def register():
        while not stop.is_set():
            with table:
                served.register("dlbridge.comes.and.goes")
            with table:
                served.unregister("dlbridge.comes.and.goes")

    def call():
        for _ in range(50):
            f = None
            while f is None and registering.is_alive():
                with table:
                    f = tvm_ffi.get_global_func("dlbridge.comes.and.goes", allow_missing=True)
            results.append(f(21))

    registering = threading.Thread(target=register)
    calling = [threading.Thread(target=call) for _ in range(3)]
    for thread in (registering, *calling):
        thread.start()
    for thread in calling:
        thread.join()
    stop.set()
    registering.join()
    assert results == 150 * [42]
    with pytest.raises(RuntimeError, match="unregister: .* is not in the global table"):
        served.unregister("dlbridge.comes.and.goes")


def test_python_may_end_while_go_has_its_tensors(library):
    for run in ("served.keep(x)", "served.register('dlbridge.twice')", "f = served.echo(lambda: x)", "t = [served.make(10, i) for i in (0, 1)]"):
        child(f"import sys, numpy as np, tvm_ffi\nserved = tvm_ffi.load_module(sys.argv[1])\nx = np.ones(1000, np.float32)\n{run}\nserved.collect()", library)


def test_functions_work_without_libtvm_ffi(library):
    out = child(
        "import ctypes, sys\n"
        "lib = ctypes.CDLL(sys.argv[1])\n"
        "class Any(ctypes.Structure): _fields_ = [('type', ctypes.c_int32), ('size', ctypes.c_uint32), ('value', ctypes.c_int64)]\n"
        "def call(name, *args):\n"
        "    result = Any()\n"
        "    status = lib[name](None, (Any * len(args))(*args), len(args), ctypes.byref(result))\n"
        "    return status, result.type, result.value\n"
        "print(call('__tvm_ffi_nop'), call('__tvm_ffi_live'), call('__tvm_ffi_scale'), call('__tvm_ffi_fail', Any(11, 3, 0x6c696e)),"
        " call('__tvm_ffi_echo', Any(1, 0, 3)))",
        library,
    )
    assert out == "(0, 0, 0) (0, 1, 0) (-1, 0, 0) (-1, 0, 0) (-1, 0, 0)"
