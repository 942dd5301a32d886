"""Tensors in TensorFlow's format TensorProto, without TensorFlow.

A tensor of a type that DLPack has becomes a `Tensor`. It aliases the message if the elements are aligned there and have the
same form as in memory. Strings, resources, variants and quantised numbers are `Elements` of bytes; strings
may also be encoded from str. Each element smaller than a byte takes a whole byte.

The functions call the Go library, which is loaded on first use (see `dlbridge.load`). In a forked child of a
process that has loaded the library they raise RuntimeError.
"""

from __future__ import annotations

import operator
from typing import Any

from . import _core
from ._core import Tensor
from ._elements import LIMIT, Buffer, Elements, copied, only_elements, only_tensor

__all__ = ["Elements", "decode", "decode_elements", "decode_tensor", "encode"]


def __dir__() -> list[str]:
    return __all__


# DLB_TENSORFLOW_LENIENT, _INTEGERS of dlb_tensorflow_decode, and _FIELDS, _PAD of dlb_tensorflow_encode.
_LENIENT, _INTEGERS = 1, 2
_FIELDS, _PAD = 1, 4


def decode(
    data: Buffer, *, limit: int = LIMIT, lenient: bool = False, integers: bool = False, copy: bool | None = None
) -> Tensor | Elements:
    """Decodes `data`, a bytes-like object that holds a TensorProto.

    Ownership: the buffer is held until the result and everything made from it is gone. A Tensor aliases the buffer
    if its elements are aligned there, and is then read-only exactly when the buffer is. Otherwise it is a writable copy.
    `copy=False` raises BufferError instead of copying, so that writing to the tensor writes to `data`;
    `copy=True` always copies.

    The call takes at most 64 times the size of `data`, 2816 bytes for each element in it, and `limit` bytes. Only a TensorProto that
    omits values that repeat the last value needs `limit`. There, an element of `Elements` counts as 24 bytes more than its size.

    `lenient` accepts what TensorFlow's C++ accepts. It ignores values after the last element and the content of a tensor
    without elements. It uses the low bits of integers out of range. It replaces an unknown rank by the number of dimensions that are
    given. With `integers` quantised numbers become a Tensor of the integers that store them.

        >>> dlbridge.tensorflow.decode(dlbridge.tensorflow.encode(2.5)).item()
        2.5

    Errors: ValueError for malformed data, and for a tensor that exceeds the limit.
    """
    options = (_LENIENT if lenient else 0) | (_INTEGERS if integers else 0)
    return copied(_core.value_decode("tensorflow", data, options, operator.index(limit), True, Elements), data, copy)


def decode_tensor(
    data: Buffer, *, limit: int = LIMIT, lenient: bool = False, integers: bool = False, copy: bool | None = None
) -> Tensor:
    """Decodes a TensorProto of a type that DLPack has, as `decode` does.

        >>> dlbridge.tensorflow.decode_tensor(dlbridge.tensorflow.encode(np.ones(2))).tolist()
        [1.0, 1.0]

    Errors: those of `decode`; TypeError if the elements are strings, or of another type that DLPack lacks.
    """
    return only_tensor(decode(data, limit=limit, lenient=lenient, integers=integers, copy=copy))


def decode_elements(data: Buffer, *, limit: int = LIMIT, lenient: bool = False) -> Elements:
    """Decodes a TensorProto of a type that DLPack lacks, such as strings, as `decode` does.

        >>> strings = dlbridge.Elements("string", (1,), ["hello"])
        >>> dlbridge.tensorflow.decode_elements(dlbridge.tensorflow.encode(strings)).values
        [b'hello']

    Errors: those of `decode`; TypeError if DLPack has the type.
    """
    return only_elements(decode(data, limit=limit, lenient=lenient))


def encode(x: Any, *, fields: bool = False, pad: bool = False) -> bytes:
    """Encodes Elements, or the tensor of any DLPack producer in any layout.

    By default elements of a fixed size are in tensor_content, and elements of variable size in the field of their
    type. With `fields` all elements are in the field of their type. With `pad` the elements begin at a multiple of 64 bytes,
    so that they are aligned in a mapped file. Without `pad` the bytes equal those that TensorFlow writes.

        >>> dlbridge.tensorflow.encode(np.float32(1)).hex()
        '0801120022040000803f'

    Errors: BufferError for a data type that TensorFlow does not have, and for memory that the host cannot read;
    ValueError for elements that the type cannot represent, and for a message of more than 2**31 - 1 bytes, which no reader of
    protocol buffers accepts.
    """
    return _core.value_encode("tensorflow", x, (_FIELDS if fields else 0) | (_PAD if pad else 0), Elements)
