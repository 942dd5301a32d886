"""Type hints, and the output of help() and inspect. `make typing` runs the type checkers."""

from __future__ import annotations

import ast
import ctypes
import inspect
import pathlib
import pydoc
import re
import subprocess
import sys
import typing

import numpy as np
import pytest

from conftest import MODULES

import dlbridge
from dlbridge import _core

USE = pathlib.Path(__file__).resolve().parent / "typed_use.py"


def test_ordinary_use_runs():
    done = subprocess.run([sys.executable, USE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and re.search(r"unsupported device|on device \(1, 0\), not on", done.stdout), done.stdout + done.stderr


def public():
    for module in MODULES:
        for name in module.__all__:
            if callable(value := getattr(module, name)):
                yield pytest.param(value, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("thing", list(public()))
def test_hints_and_signatures_can_be_read(thing):
    typing.get_type_hints(thing)
    if thing is not dlbridge.Tensor:  # programs do not call Tensor
        assert inspect.signature(thing) is not None


def test_all_names_are_there():
    for module in MODULES:
        assert {name for name in dir(module) if not name.startswith("__")} == set(module.__all__)
    with pytest.raises(AttributeError, match="module 'dlbridge' has no attribute 'form_dlpack'"):
        dlbridge.form_dlpack  # noqa: B018
    text = pydoc.plain(pydoc.render_doc(dlbridge))
    text = "".join(text.split())  # Python 3.13 breaks the lines of long signatures
    assert "from_dlpack(producer" in text and "wrap(cfunc" in text and "classElements" in text


def described(body, owner):
    """Yields each public name of a stub file, with its docstring there and the first line of its docstring in the extension."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if not name.startswith("_"):
                text = ast.get_docstring(node)
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                text = after.value.value if isinstance(after, ast.Expr) else None
            case _:
                continue
        whole = getattr(owner, name).__doc__
        yield name, text, whole and whole.splitlines()[0]
        if isinstance(node, ast.ClassDef):
            yield from described(node.body, getattr(owner, name))


def test_editors_show_the_first_line_of_the_documentation():
    stub = pathlib.Path(_core.__file__).with_name("_core.pyi")
    names = set()
    for name, text, first in described(ast.parse(stub.read_text()).body, _core):
        assert text == first, f"{stub.name}: the docstring of {name} is not the first line of that of the extension"
        names.add(name)
    of_core = {name for name in dlbridge.__all__ if getattr(dlbridge, name) is getattr(_core, name, None)}
    t = dlbridge.empty(3, "int8")  # the type has some attributes of arrays only to raise errors, and the object lacks them
    assert names >= of_core | {name for name in dir(t) if not name.startswith("_") and hasattr(t, name)} and "counters" in of_core


def test_help_shows_the_arguments_of_wrapped_functions():
    of_c = ctypes.CDLL(None).abs
    f = dlbridge.wrap(of_c, np.from_dlpack, args=["tensor", ctypes.c_float, "error"], returns="tensor")
    parameters = inspect.signature(f).parameters
    assert [p.annotation for p in parameters.values()] == ["tensor", "c_float"]
    text = pydoc.plain(pydoc.render_doc(f))
    for part in ("abs(arg1: 'tensor', arg2: 'c_float', /)", "any DLPack producer", "ctypes converts the other", "reports"):
        assert part in text
    assert "Returns what from_dlpack makes of the tensor" in text
    text = pydoc.plain(pydoc.render_doc(dlbridge.wrap(of_c, args=[], returns=None)))
    assert "abs() -> 'None'" in text and "producer" not in text and "converts" not in text
    f = dlbridge.wrap(of_c, args={"x": "tensor", "factor": ctypes.c_float, "e": "error"}, returns=None)
    assert str(inspect.signature(f)).replace("'", "") == "(x: tensor, factor: c_float) -> None"
    assert "abs(x: 'tensor', factor: 'c_float') -> 'None'" in pydoc.plain(pydoc.render_doc(f))
    kind = eval("ctypes.POINTER(ctypes.c_longdouble)", {"ctypes": ctypes})  # noqa: S307
    if sys.version_info < (3, 13):
        assert not hasattr(kind, "__module__")  # like types that a program defines under exec
    f = dlbridge.wrap(of_c, args=[kind], returns=ctypes.c_int)
    assert inspect.signature(f).parameters["arg1"].annotation == "LP_c_longdouble"
