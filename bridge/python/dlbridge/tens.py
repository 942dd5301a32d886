"""ZIO messages and the tensors in them (the TENS form).

A message is a sequence of frames: a prefix (level, form, label), a header (origin, granule, seqno) and
payload parts. If the label is a JSON object with the attribute TENS, it describes tensors. The parts have
the elements of these tensors. Decoding never copies a payload: the tensors alias the frames.

The functions call the Go library, which is loaded on first use (see `dlbridge.load`). In a forked child of a
process that has loaded the library they raise RuntimeError.
"""

from typing import Any  # noqa: F401 # typing.get_type_hints looks here for the types of the attributes of Message

from ._core import Tensor  # noqa: F401
from ._messages import Message, _of_frames, decode, decode_all, decode_frames, encode, encode_frames
from ._zeromq import Tracker, recv, send

__all__ = ["Message", "Tracker", "decode", "decode_all", "decode_frames", "encode", "encode_frames", "recv", "send"]


def __dir__() -> list[str]:
    return __all__


for _thing in (Message, Tracker, _of_frames, decode, decode_all, decode_frames, encode, encode_frames):  # as help and pickles name them
    _thing.__module__ = __name__
