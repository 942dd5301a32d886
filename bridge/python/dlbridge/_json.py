"""JSON of Python: of metadata, rules and labels. The rules for labels are those of the Go library."""

from __future__ import annotations

import _thread
import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_MAX_DEPTH = 256  # Go: tens.MaxDepth
_TOO_DEEP = f"dlbridge: label: arrays and objects are nested more than {_MAX_DEPTH} levels deep"


def dumps(value: Mapping[str, Any], what: str) -> bytes:
    if not isinstance(value, Mapping):
        raise TypeError(f"dlbridge: {what} must be a mapping, not {type(value)!r}")
    whole: dict[Any, Any] = {}
    try:
        whole = dict(value)
        return json.dumps(whole, allow_nan=False, separators=(",", ":"), default=_number).encode()
    except RecursionError:
        raise ValueError(f"dlbridge: {what} is nested too deep, or not enough stack is left to encode it") from None
    except (TypeError, ValueError) as error:  # or a subclass, whose constructor may not take a string
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"dlbridge: {_place(whole, what)}: {error}") from error


def _place(value: Any, what: str) -> str:
    """Returns the place of the value within `value` that JSON cannot represent, such as metadata['run'][2]."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, item in items:
        try:
            json.dumps(item, allow_nan=False, default=_number)
        except RecursionError:
            break
        except (TypeError, ValueError):
            return _place(item, f"{what}[{key!r}]")
    return what


def _number(value: Any) -> Any:
    """Returns a number of NumPy as one of Python, for json."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def read(what: str, decode: Callable[[], Any]) -> Any:
    try:
        return decode()
    except RecursionError:
        raise ValueError(f"dlbridge: {what}: not enough stack is left to decode it; read it before the recursion") from None


def loads(text: bytes | None) -> Any:
    """Decodes metadata, which the Go library has checked. ValueError for integers with more digits than Python converts."""
    if text is None:
        return None
    try:
        return _decode(text)
    except ValueError as error:
        raise ValueError(f"dlbridge: metadata: {error}") from None


def _decode(text: bytes | str, **hooks: Any) -> Any:
    """Returns the result of json.loads for a text of at most _MAX_DEPTH levels, however little stack the caller has left."""
    decode = functools.partial(json.loads, text, **hooks)
    try:
        return decode()
    except RecursionError:
        pass
    result: list[Any] = []
    error: list[BaseException] = []
    running = _thread.allocate_lock()

    def run() -> None:
        try:
            result.append(decode())
        except BaseException as raised:
            error.append(raised)
        finally:
            running.release()

    running.acquire()
    try:
        _thread.start_new_thread(run, ())  # it has a stack of its own; `threading` would take more of this one
    except RuntimeError:
        raise RecursionError from None
    running.acquire()
    if error:
        raise error[0]
    return result[0]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate name")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def object_of(label: bytes, checked: bool) -> dict[str, Any] | None:
    """Returns the JSON object of a label, or None for any other text. ValueError for too deep nesting.

    The rules are those of the Go library, which has applied them already to a label that is `checked`.
    """
    try:
        text = label.decode()
        shallow = None if checked else _without_too_deep(text)
        value = _decode(text if shallow is None else shallow, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except ValueError:
        return None
    if shallow is not None:
        raise ValueError(_TOO_DEEP)
    if not checked and any(escape[1] for escape in _ESCAPE.finditer(text)):
        return None
    return value if isinstance(value, dict) else None


_MARK = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{}\]]', re.DOTALL)
"""A string, or a bracket."""


def _without_too_deep(text: str) -> str | None:
    """Returns the text up to the first array or object that is nested too deep, with null for it, and with all others closed there; None
    if there is none. It is valid JSON if the text is valid up to there.
    """
    closing: list[str] = []
    if text.count("[") + text.count("{") > _MAX_DEPTH:
        for mark in _MARK.finditer(text):
            if mark[0] in ("[", "{"):
                if len(closing) == _MAX_DEPTH:
                    return text[: mark.start()] + "null" + "".join(reversed(closing))
                closing.append("]" if mark[0] == "[" else "}")
            elif closing and mark[0] == closing[-1]:
                closing.pop()
    return None


_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)")
"""An escape, or the two escapes of a surrogate pair. The group matches an unpaired surrogate, which is not valid JSON."""
