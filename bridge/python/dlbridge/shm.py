"""Tensors in memory that the processes of one machine share.

A *segment* is memory with a descriptor and without a name. The kernel frees it when no process holds it any more, even if a process
crashes. A tensor in a segment is an ordinary `Tensor`: its views are in the segment, and NumPy, PyTorch and C functions use its memory.
This process holds the segment until the last of these users is gone.

`send` and `recv` hand a tensor to another process through a connected Unix socket. The receiver may only read it, unless the sender passes
`readonly=False`. multiprocessing pickles a tensor for a queue, a pipe or the arguments of a process, and also hands it over without a copy.
The other process may then write to the tensor, unless the tensor is read-only (`readonly`). For other transports, `offer` makes a small
dict, and `fetch` makes the tensor from this dict. `offer_parts` and `fetch_parts` do the same with the tensors of a TENS message.

The first hand-over of a segment, by any process, decides whether other processes may write to the segment. If a later hand-over of any of
its tensors differs, it raises BufferError before anything is sent. Tensors already sent arrive as they were sent. `copy` makes a tensor
in a new segment, for which nothing is decided.

A process that pickles a tensor, or makes a handle, must live until the tensor is received. Therefore each process, including workers of
a pool, waits when it ends until others have fetched the tensors it has offered. This includes tensors that its threads have offered,
directly or through a queue. It does not include tensors that daemon threads offer during the wait. The process waits for at most
`exit_timeout` seconds. Each process has its own `exit_timeout`; the `initializer` of a pool can set it in the workers. An item that no
thread has pickled before the process ends is lost, like other items of multiprocessing. Such items are put into a queue by a daemon thread
during the wait, or are in a queue after `cancel_join_thread`. A pickled tensor that nobody receives stays on offer for `pickle_timeout`
seconds, an hour by default. If the sender does not answer, for example because a debugger has stopped it, a receiver waits up to 30
seconds for each tensor.

A tensor cannot be pickled if it is on a device, is closed, or was handed over before with another permission to write. Nor can it be
pickled if the process has no descriptor or memory left. The caller, such as `Connection.send`, or the result of a pool then raises the
error. A queue is different: it pickles in a thread after `put` has returned, and no caller would see the error. (So do not close a tensor
after `put`; dropping the last reference is enough.) Therefore a tensor of a queue arrives even after an error, and each use of it
raises a ConnectionError that names the cause. The same happens if the receiver cannot fetch a tensor, because the sender has ended, or
a process has no descriptor or memory left. (An exception in an unpickler would end the thread that receives the results of a pool.)

A tensor that is not in a segment is pickled by its elements, and arrives as a copy. So does a broadcast of more bytes than its segment,
and any array of NumPy, unless `register_numpy` was called.

The module needs Linux 5.1 or later. Only `offer_parts` and `fetch_parts` need the Go library: the rest works in forked children.
"""

from __future__ import annotations

import contextlib
import multiprocessing.reduction
import multiprocessing.util
import os
import pickle
import socket as sockets
import threading
import time
from collections.abc import Sequence
from typing import Any

from . import _core, _pickle
from ._asarray import asarray
from ._core import Tensor, from_dlpack

if not hasattr(_core, "shm_zeros"):
    raise ImportError("dlbridge: shm: shared memory needs Linux")

from ._offers import checked, fetch, fetch_parts, milliseconds_of, offer, offer_parts

__all__ = ["attach", "copy", "exit_timeout", "fetch", "fetch_parts", "is_shared", "offer", "offer_parts", "pickle_timeout", "readonly", "recv", "register_numpy", "send", "zeros"]


def __dir__() -> list[str]:
    return __all__


exit_timeout: float = 5.0
"""The number of seconds that this process waits when it ends, for others to fetch the tensors it has offered. If nothing is on offer, it
does not wait. A process that is killed, or calls os._exit itself, does not wait. The wait includes tensors that a function of atexit
offers, if the function was registered after this module was imported. Functions registered earlier are called after the wait."""

pickle_timeout: float = 3600.0
"""The number of seconds in which a tensor that multiprocessing has pickled can be received. If nobody receives it, this process holds its
segment and a descriptor for this time. This happens if the item of the tensor cannot be pickled or sent, if a program leaves a pool early
(`imap`), and if a worker dies. Set a larger number if tasks wait longer in their queue (`math.inf`: until this process ends), and a smaller
number if many tasks are dropped."""


def zeros(shape: int | Sequence[int], dtype: Any) -> Tensor:
    """Returns a row-major, writable Tensor of zeros in a new segment. The arguments are those of `dlbridge.empty`.

    Errors: those of `dlbridge.empty`; OSError if the process has too many descriptors, or a file may not be so large
    (RLIMIT_FSIZE); MemoryError, also for a segment that is larger than the memory of the machine.

        >>> dlbridge.shm.zeros((2, 3), "int8").tolist()
        [[0, 0, 0], [0, 0, 0]]
    """
    return _core.shm_zeros(shape, dtype)


def copy(x: Any, /) -> Tensor:
    """Returns a row-major copy of x in a new segment. x is an array, a buffer, a number, or lists of these, as for `dlbridge.asarray`.

    Errors: those of `asarray` and `zeros`.

        >>> dlbridge.shm.copy(np.arange(3)).tolist(), dlbridge.shm.copy([1, 2.5]).tolist()
        ([0, 1, 2], [1.0, 2.5])
    """
    return _core.shm_copy(asarray(x))


def attach(
    name: str,
    shape: int | Sequence[int],
    dtype: Any,
    /,
    *,
    offset: int = 0,
    directory: str = "/dev/shm",
    trust_peer: bool = False,
    readonly: bool = False,
) -> Tensor:
    """Returns a row-major Tensor of the elements in a named shared memory object of POSIX. Another program has made the object, for
    example with multiprocessing.shared_memory.

    The Tensor is a copy, because such an object can become smaller at any time. With `trust_peer` the Tensor is on the memory of the
    object. If the object then becomes smaller, the next access to the missing part ends this process. With `readonly` the Tensor is
    read-only, and the object is not opened for writing.

    The name is looked up only in the folder `directory`, and links are not followed. `offset` is in bytes. `attach` does not remove the
    object, and does not register it with the resource tracker. The program that has made the object removes it. The program may remove
    the name immediately.

    Errors: ValueError for a name with a slash, for anything but a regular file, and for an object that is too small; FileNotFoundError
    and other OSErrors.

        >>> from multiprocessing import shared_memory
        >>> memory = shared_memory.SharedMemory(create=True, size=8)
        >>> memory.buf[:3] = b"abc"
        >>> t = dlbridge.shm.attach(memory.name, 3, "uint8")
        >>> memory.close(); memory.unlink()
        >>> t.tobytes()
        b'abc'
    """
    return _core.shm_attach(directory, name, offset, shape, dtype, not readonly, trust_peer)


def is_shared(x: Any, /) -> bool:
    """Reports whether all elements of a tensor, array or buffer lie in a segment.

    Any library of the process may have made the segment: this module, libdlbridge_tensor, or Go's bridge/shm. For memory outside segments,
    is_shared asks the kernel. This takes less than half a microsecond and a descriptor that the process keeps. (Before Linux 6.11 it takes
    some microseconds, and no descriptor.) For a segment of another library, is_shared searches the descriptors of the process. This takes
    about 2 microseconds for each open descriptor.

    The result is False for a tensor without elements, for a broadcast of more bytes than its segment, and for a tensor on the memory of
    an object that `attach` has mapped. Such an object can become smaller, so other processes would have to copy it.

    Errors: those of `asarray`, which accepts the same objects.

        >>> array = dlbridge.shm.zeros(3, "int8").numpy()
        >>> dlbridge.shm.is_shared(array), dlbridge.shm.is_shared(array[1:]), dlbridge.shm.is_shared(array.copy())
        (True, True, False)
    """
    return _core.shm_is_shared(asarray(x))


def readonly(tensor: Tensor, /) -> Tensor:
    """Returns a read-only Tensor on the same memory, in a second mapping without write permission.

    If a consumer ignores the flag of a read-only tensor, as PyTorch does, a write ends the process instead of changing the
    elements. The tensor must lie in a segment, or in a file that was mapped with mmap.MAP_SHARED, as mmap.mmap does by default.

    Ownership: the result keeps the memory of the tensor. Errors: BufferError for private memory, which `copy` copies into a segment.

        >>> dlbridge.shm.readonly(dlbridge.shm.zeros(3, "int8"))
        <dlbridge.Tensor, int8(3,), read-only: [0, 0, 0]>
    """
    return _core.shm_readonly(checked(tensor, "readonly"))


def send(sock: sockets.socket, /, *tensors: Tensor, readonly: bool = True) -> None:
    """Sends tensors in segments to another process, which calls `recv`. Nothing is copied.

    sock is a connected Unix socket of the type SOCK_STREAM; its timeout applies. After readonly=True, no process can map these
    segments writable, and the receiver cannot write. Earlier writable mappings, such as the sender's, stay writable. The first hand-over
    of a segment, here or in another process, decides: later hand-overs must use the same `readonly`.

    Ownership: the caller keeps the tensors, and may close them. Errors: BufferError for a tensor that is not in a segment, for a tensor
    whose segment was handed over before with another `readonly`, and for a read-only tensor with readonly=False; ValueError for a
    broadcast of more bytes than its segment, for tensors in more than 253 segments, and for more tensors than a message of 1 MiB can
    describe; OSError of the socket. After a BufferError or ValueError nothing was sent. Nothing was decided either, unless another thread
    or process has decided for one of several segments during the call. After an error of the socket, close the socket; the segments count
    as handed over.

        >>> import socket
        >>> a, b = socket.socketpair()
        >>> dlbridge.shm.send(a, dlbridge.shm.copy(np.arange(3)))
        >>> dlbridge.shm.recv(b)[0].tolist()
        [0, 1, 2]
        >>> a.close(); b.close()
    """
    _check_socket(sock, "send")
    _core.shm_send(sock.fileno(), sock.gettimeout(), tensors, not readonly)


def recv(sock: sockets.socket, /, *, copy_unsealed: int = 0) -> list[Tensor]:
    """Receives the tensors of one `send`.

    The message of the other process is checked against the kernel. A file that another process can make smaller is refused. With
    `copy_unsealed`, up to that number of bytes of such files are copied instead.

    Ownership: the mapping of a segment ends with the last share of its tensors. Errors: EOFError if the other side has closed the socket;
    ValueError and BufferError for a message that `send` would not write; MemoryError, also if segments of other processes would take
    more than a quarter of the address space of this process; OSError of the socket. After an error nothing is mapped, and no descriptor is
    open; close the socket.

        >>> import socket
        >>> a, b = socket.socketpair()
        >>> dlbridge.shm.send(a, dlbridge.shm.copy(np.arange(3)))
        >>> [t.tolist() for t in dlbridge.shm.recv(b)]
        [[0, 1, 2]]
        >>> a.close(); b.close()
    """
    _check_socket(sock, "recv")
    return _core.shm_recv(sock.fileno(), sock.gettimeout(), copy_unsealed)


def _check_socket(sock: Any, what: str) -> None:
    if not isinstance(sock, sockets.socket):
        raise TypeError(f"dlbridge: shm: {what}: a connected Unix socket of the type SOCK_STREAM is required, not {sock!r}")


_FETCHING = 30.0  # seconds, for each tensor, until a process that does not answer, such as a stopped one, is given up


def _offer(tensor: Tensor) -> _pickle.Reduced | None:
    pickled = _core.shm_pickle(tensor, milliseconds_of(pickle_timeout, "pickle_timeout"))
    if isinstance(pickled, str):
        return _pickle.missing, (pickled,)
    return None if pickled is None else (_rebuild, pickled)


def _reduce(tensor: Tensor) -> _pickle.Reduced:
    """Pickles a tensor for multiprocessing: one in a segment as an offer of it, any other by its elements."""
    return _pickle.reduce(tensor, 4, _offer)


# Pickles name this function.
def _rebuild(data: bytes, name: str, token: str) -> Tensor:
    """Returns the tensor of an offer. An error here is raised when the tensor is used. An exception in an unpickler would end the thread
    that receives the results of a pool, and all callers that wait for a result would wait for ever.
    """
    result = _core.shm_unpickle(data, name, token, _FETCHING)
    if isinstance(result, Tensor):
        return result
    if isinstance(result, LookupError):
        return _pickle.missing(
            "the process that sent it has ended, but must live until the tensor is received; or the pickle was loaded twice, or later than "
            "dlbridge.shm.pickle_timeout of that process allows"
        )
    return _pickle.missing(str(result) or type(result).__name__)


multiprocessing.reduction.ForkingPickler.register(Tensor, _reduce)


def register_numpy() -> None:
    """Lets multiprocessing hand over arrays of NumPy in segments, such as `tensor.numpy()` and slices of it, without a copy.

    This holds for arrays that this process later puts into a queue, a pipe, a pool or the arguments of a process. The receiver gets an array
    on the same memory. As with tensors, the receiver may write to the array unless it is read-only, and this process must live until the
    array is received. If the hand-over fails, the receiver gets a Tensor instead. The Tensor raises a ConnectionError with the cause when a
    program indexes it, computes with it or passes it to NumPy. All other arrays are pickled as before, also arrays of subclasses, and
    arrays whose data type DLPack lacks. A process that was started by `spawn` or `forkserver` and returns arrays must itself call this
    function, for example as the `initializer` of a pool.

    Errors: ImportError without NumPy.

        >>> import multiprocessing
        >>> dlbridge.shm.register_numpy()
        >>> a, b = multiprocessing.Pipe()
        >>> array = dlbridge.shm.zeros(3, "int8").numpy()
        >>> a.send(array[1:])
        >>> received = b.recv()
        >>> received[:] = 7
        >>> array
        array([0, 7, 7], dtype=int8)
    """
    import numpy

    multiprocessing.reduction.ForkingPickler.register(numpy.ndarray, _reduce_array)


def _reduce_array(array: Any) -> Any:
    try:
        tensor = from_dlpack(array)
    except (BufferError, TypeError, ValueError):  # a data type or layout that DLPack lacks
        tensor = None
    if tensor is not None and is_shared(tensor):
        return _array_of, (tensor,)
    return array.__reduce_ex__(pickle.DEFAULT_PROTOCOL)  # the one that multiprocessing uses


# Pickles name this function.
def _array_of(tensor: Tensor) -> Any:
    """Returns the array of a tensor, or the tensor itself if it was not handed over."""
    return tensor if tensor.closed else tensor.numpy()


def _register(_: object = None) -> None:
    """Makes this process wait at its end until what it offers was fetched."""
    # Workers leave by os._exit and call only these finalizers, in the order of their priorities. This one must come after that of a queue
    # (-5), whose thread has then pickled all items, and after the children of this process have ended, which fetch its offers. The first
    # offer may happen while finalizers are called, which is too late to register one.
    multiprocessing.util.Finalize(None, _end, exitpriority=-100)


def _end() -> None:
    # A child of multiprocessing calls this before it waits for its threads, which can still offer tensors.
    if threading.main_thread().is_alive() and _other_threads():
        with contextlib.suppress(RuntimeError):  # there can be no further thread
            _EndAfterThreads(name="dlbridge.shm").start()
            return
    _wait(time.monotonic() + exit_timeout)


def _wait(until: float) -> None:
    """Waits until all offers made so far were fetched, or until that time. It ignores later offers: daemon threads may make them for ever."""
    made = _core.shm_offers_made()
    while _core.shm_offer_count(made) > 0 and time.monotonic() < until:
        time.sleep(0.002)
    _core.shm_offers_end()


def _other_threads() -> list[threading.Thread]:
    """Returns the threads, besides the main one, for which an interpreter waits at its end."""
    main = threading.main_thread()
    return [thread for thread in threading.enumerate() if thread.is_alive() and not thread.daemon and thread is not main]


class _EndAfterThreads(threading.Thread):
    """Waits until the other threads have ended, and then for what they have offered. The interpreter waits for this thread, but to the
    other threads it counts as ended: one that waits for all others would otherwise wait for ever.
    """

    def run(self) -> None:
        while threads := _other_threads():
            threads[0].join()
        # Queues that the threads have used first are flushed now. One that nobody reads would take for ever.
        flush = threading.Thread(target=multiprocessing.util._run_finalizers, daemon=True)  # type: ignore[attr-defined] # not in the hints
        until = time.monotonic() + exit_timeout
        with contextlib.suppress(RuntimeError):  # there can be no further thread
            flush.start()
            flush.join(min(exit_timeout, threading.TIMEOUT_MAX))
        _wait(until)

    def join(self, timeout: float | None = None) -> None:
        pass

    def is_alive(self) -> bool:
        return False


_register()
os.register_at_fork(after_in_child=_register)
multiprocessing.util.register_after_fork(_register, _register)  # its children have dropped what was registered before
