"""JSON for metadata, rules and labels. The rules for labels are those of the Go library."""

from __future__ import annotations

import json
import json.decoder
import json.encoder
import re
from collections.abc import Callable, Mapping
from typing import Any

_MAX_DEPTH = 256  # Go: tens.MaxDepth
_TOO_DEEP = f"dlbridge: label: arrays and objects are nested more than {_MAX_DEPTH} levels deep"


_quoted = json.encoder.encode_basestring_ascii  # as json.dumps does with a str, and quicker


def dumps(value: Mapping[str, Any], what: str, name: str | None = None) -> bytes:
    """Encodes a mapping; `what` names it in errors. `name` becomes its member "name", which must not have another value."""
    if not isinstance(value, Mapping):
        raise TypeError(f"dlbridge: {what} must be a mapping, not {type(value)!r}")
    whole: dict[Any, Any] = {}
    try:
        whole = dict(value) if name is None else {"name": name, **value}
        if name is not None and whole["name"] != name:
            raise ValueError(f"the name is {whole['name']!r}, but the tensor's name is {name!r}")
        return json.dumps(whole, allow_nan=False, separators=(",", ":"), default=_number).encode()
    except RecursionError:
        raise ValueError(f"dlbridge: {what} is nested too deep, or not enough stack is left to encode it") from None
    except (TypeError, ValueError) as error:  # or a subclass, whose constructor may not take a string
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"dlbridge: {_place(whole, what)}: {error}") from error


def name_only(name: str) -> bytes:
    """Returns the result of dumps({}, "", name)."""
    return b'{"name":%b}' % _quoted(name).encode()


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
    """Returns a number of NumPy as a number of Python, for json."""
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
        return json.loads(text)
    except RecursionError:
        return _read_value(text.decode())
    except ValueError as error:
        raise ValueError(f"dlbridge: metadata: {error}") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate name")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _DeepError(ValueError):
    pass


def object_of(label: bytes, checked: bool) -> dict[str, Any] | None:
    """Returns the JSON object of a label, or None for any other text. ValueError for too deep nesting.

    The rules are those of the Go library, which has applied them already to a label that is `checked`.
    """
    try:
        text = label.decode()
        deep = text.count("[") + text.count("{") > _MAX_DEPTH
        try:
            value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        except (RecursionError, ValueError) as error:
            if isinstance(error, ValueError) and not deep:
                return None
            value = _read_value(text)  # reports deep nesting before any other error
        if not checked:
            if deep:
                _check_depth(value)
            if any(escape[1] for escape in _ESCAPE.finditer(text)):
                return None
    except _DeepError:
        raise
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)")
"""An escape, or the two escapes of a surrogate pair. The group matches an unpaired surrogate, which is not valid JSON."""


def _check_depth(value: Any) -> None:
    containers = [iter((value,))]  # the open arrays and objects: an iterator of the values that are still to be visited
    while containers:
        for item in containers[-1]:
            if isinstance(item, (dict, list)):
                if len(containers) > _MAX_DEPTH:
                    raise _DeepError(_TOO_DEEP)
                containers.append(iter(item.values() if isinstance(item, dict) else item))
                break
        else:
            containers.pop()


_CLOSING = {"[": "]", "{": "}"}
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = json.JSONDecoder(parse_constant=_no_constant)


def _skip(text: str, at: int) -> int:
    """Returns the index after white space."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr] # it matches the empty text


def _after(mark: str, text: str, at: int) -> int:
    """Returns the index after white space and a mark, which must follow. The mark "" is the end of the text."""
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"character {at} is not JSON")
    return at + 1


def _read_value(text: str) -> Any:
    """Decodes a JSON text without recursion, for callers with little stack left. json.loads is faster."""
    containers: list[tuple[str, list[Any]]] = []  # the open ones: the closing mark, and elements or names and values
    at = 0
    while True:
        if containers and containers[-1][0] == "}":
            name, at = json.decoder.scanstring(text, _after('"', text, at), True)  # type: ignore[attr-defined]
            containers[-1][1].append(name)
            at = _after(":", text, at)
        at = _skip(text, at)
        closing = _CLOSING.get(text[at : at + 1])
        if closing is None:
            value, at = _SCALAR.raw_decode(text, at)
        elif len(containers) == _MAX_DEPTH:
            raise _DeepError(_TOO_DEEP)
        else:
            at = _skip(text, at + 1)
            if text[at : at + 1] != closing:
                containers.append((closing, []))
                continue
            value, at = [] if closing == "]" else {}, at + 1
        while containers:
            closing, values = containers[-1]
            values.append(value)
            at = _skip(text, at)
            if text[at : at + 1] == ",":
                at += 1
                break
            at = _after(closing, text, at)
            containers.pop()
            value = values if closing == "]" else _no_duplicates(list(zip(values[::2], values[1::2])))
        else:
            _after("", text, at)
            return value
