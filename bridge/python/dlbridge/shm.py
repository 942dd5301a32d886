"""Tensors in memory that the processes of one machine share.

A *segment* is memory with a descriptor and without a name. The kernel frees it when the last process that holds it ends, however it
ends. A tensor in a segment is an ordinary `Tensor`: its views lie in the segment, and NumPy, PyTorch and C functions use its memory. This
process holds the segment until the last of these users is gone.

`send` and `recv` hand a tensor to another process through a connected Unix socket, read-only unless `send` is told otherwise. When
multiprocessing pickles a tensor, for a queue, a pipe or the arguments of a process, it hands the tensor over without a copy too. The
other process may then write to it, unless the tensor is read-only (`readonly`). For other transports, `offer` makes a small dict, and
`fetch` makes the tensor from it. `offer_parts` and `fetch_parts` do the same with the tensors of a TENS message.

The first hand-over of a segment decides whether other processes may write to it. This holds for all processes: a later hand-over of any
of its tensors in the other way raises BufferError, before anything is sent. Tensors already sent arrive as they were sent. `copy` makes
a tensor in a new segment, for which nothing is decided.

A process that pickles a tensor, or makes a handle, must live until the tensor is received. Therefore each process, including workers of
a pool, waits at its end until others have fetched the tensors it has offered. This includes tensors that its threads have offered,
directly or through a queue, but not those that daemon threads offer meanwhile. It waits for at most `exit_timeout` seconds. Each process
has its own `exit_timeout`; the `initializer` of a pool can set it in the workers. An item that no thread has pickled before the process
ends is lost, as are other items of multiprocessing: those that a daemon thread puts into a queue then, and those of a queue after
`cancel_join_thread`. A pickled tensor that nobody receives stays on offer for `pickle_timeout` seconds, an hour by default. A receiver
waits up to 30 seconds for each tensor if the sender does not answer, for example because a debugger has stopped it.

A tensor cannot be pickled if it is on a device, is closed, or was handed over in the other way, or if the process has no descriptor or
memory left. The caller, such as `Connection.send`, or the result of a pool then raises the error. A queue pickles in a thread, after
`put` has returned, where nobody would see the error. (So do not close a tensor after `put`; dropping the last reference is enough.) The
tensor of a queue then arrives all the same. So does a tensor that the receiver cannot fetch, because the sender has ended, or a process
has no descriptor or memory left. Each use of it raises a ConnectionError that names the cause. (An exception in an unpickler would end
the thread that receives the results of a pool.)

Any other tensor, and a broadcast of more bytes than its segment, is pickled by its elements: it arrives as a copy. So does an array of
NumPy, wherever its memory is, unless `register_numpy` was called.

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
"""The number of seconds that this process waits at its end for others to fetch the tensors it has offered. An exit with nothing on offer
is not delayed. A process that is killed, or calls os._exit itself, does not wait. The wait includes tensors that a function of atexit
offers, if it was registered after this module was imported. Functions registered before are called after the wait."""

pickle_timeout: float = 3600.0
"""The number of seconds in which a tensor that multiprocessing has pickled can be received. If nobody receives it, this process holds its
segment and a descriptor for this time. This happens after an error in the rest of an item (`Connection.send` does not report to a tensor
that it was not sent), for the tasks of a pool that is left early (`imap`), and for the tasks of a worker that has died. Set a larger
number if tasks wait longer in their queue (`math.inf`: until this process ends), and a smaller one if many are dropped."""


def zeros(shape: int | Sequence[int], dtype: Any) -> Tensor:
    """Returns a row-major, writable Tensor of zeros in a new segment. The arguments are those of `dlbridge.empty`.

    Errors: those of `dlbridge.empty`; OSError if the process has too many descriptors, or may not make so large a file
    (RLIMIT_FSIZE); MemoryError, also for a segment that is larger than the memory of the machine.

        >>> dlbridge.shm.zeros((2, 3), "int8").tolist()
        [[0, 0, 0], [0, 0, 0]]
    """
    return _core.shm_zeros(shape, dtype)


def copy(x: Any, /) -> Tensor:
    """Returns a row-major copy of an array, a buffer, a number, or lists of these, as `dlbridge.asarray` takes them, in a new segment.

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
    """Returns a row-major Tensor of the elements in a named shared memory object of POSIX that another program has made, for example with
    multiprocessing.shared_memory.

    The Tensor is a copy, because such an object can become smaller at any time. With `trust_peer` it is on the memory of the object
    itself; if the object then becomes smaller, the next access to the part that is gone ends this process. With `readonly` the Tensor is
    read-only, and the object is not opened for writing.

    `directory` is the only folder in which the name is looked up; links are not followed. `offset` is in bytes. The object is neither
    removed nor registered with the resource tracker. The program that has made it removes it, and may remove the name immediately.

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
    """Reports whether all elements of a tensor, array or buffer lie in a segment, whichever library of the process has made it: this module,
    libdlbridge_tensor, or Go's bridge/shm. For other memory it asks the kernel, which takes less than half a microsecond and a
    descriptor that the process keeps (before Linux 6.11 some microseconds, and no descriptor). For a segment of another library it
    searches the descriptors of the process, which takes about 2 microseconds for each open descriptor.

    It is False for a tensor without elements, for a broadcast of more bytes than its segment, and for a tensor on the memory of an
    object that `attach` has mapped: that object can become smaller, so other processes would have to copy it.

    Errors: those of `asarray`, which takes the same objects.

        >>> array = dlbridge.shm.zeros(3, "int8").numpy()
        >>> dlbridge.shm.is_shared(array), dlbridge.shm.is_shared(array[1:]), dlbridge.shm.is_shared(array.copy())
        (True, True, False)
    """
    return _core.shm_is_shared(asarray(x))


def readonly(tensor: Tensor, /) -> Tensor:
    """Returns a read-only Tensor on the same memory, in a second mapping without write permission.

    A consumer that ignores the flag of a read-only tensor, as PyTorch does, then ends the process instead of changing the
    elements. The tensor must lie in a segment, or in a file that was mapped with mmap.MAP_SHARED, as mmap.mmap does by default.

    Ownership: the result keeps the memory of the tensor. Errors: BufferError for private memory; `copy` copies it into a segment.

        >>> dlbridge.shm.readonly(dlbridge.shm.zeros(3, "int8"))
        <dlbridge.Tensor, int8(3,), read-only: [0, 0, 0]>
    """
    return _core.shm_readonly(checked(tensor, "readonly"))


def send(sock: sockets.socket, /, *tensors: Tensor, readonly: bool = True) -> None:
    """Sends tensors in segments to another process, which calls `recv`. Nothing is copied.

    sock is a connected Unix socket of the type SOCK_STREAM; its timeout applies. After readonly=True, no process can map these
    segments writable, and the receiver cannot write. Earlier writable mappings, such as the sender's, stay writable. The first hand-over
    of a segment, here or in another process, decides: later ones must use the same `readonly`.

    Ownership: the caller keeps the tensors, and may close them. Errors: BufferError for a tensor that is not in a segment, for
    one whose segment was handed over in the other way before, and with readonly=False for one that is read-only; ValueError for a
    broadcast of more bytes than its segment, for tensors in more than 253 segments, and for more than a message of 1 MiB can describe;
    OSError of the socket. After a BufferError or ValueError nothing was sent, and nothing was decided, unless another thread or process
    has decided for one of several segments during the call. After an error of the socket, close it; the segments count as handed over.

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

    The message of the other process is checked against the kernel. Files that another process can make smaller are refused, except
    that up to `copy_unsealed` bytes of them are copied.

    Ownership: the mapping of a segment ends with the last share of its tensors. Errors: EOFError if the other side has closed the socket;
    ValueError and BufferError for a message that is not as `send` writes it; MemoryError, also if segments of other processes would take
    more than a quarter of the address space of this one; OSError of the socket. After an error nothing is mapped, and no descriptor is
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
            "the process that has sent it must live until it is received, and it has ended; or the pickle was loaded twice, or later than "
            "dlbridge.shm.pickle_timeout of that process allows"
        )
    return _pickle.missing(str(result) or type(result).__name__)


multiprocessing.reduction.ForkingPickler.register(Tensor, _reduce)


def register_numpy() -> None:
    """Lets multiprocessing hand over arrays of NumPy in segments, such as `tensor.numpy()` and slices of it, without a copy.

    It concerns arrays that this process then puts into a queue, a pipe, a pool or the arguments of a process. An array on the same memory
    arrives. As with tensors, the receiver may write to it unless it is read-only, and this process must live until it is received. If the
    hand-over fails, a Tensor arrives in its place. It raises a ConnectionError with the cause when it is indexed, computed with or passed
    to NumPy. All other arrays, including those of subclasses and those whose data type DLPack lacks, are pickled as before. A process that
    was started by `spawn` or `forkserver` and returns arrays must call this function itself: it can be the `initializer` of a pool.

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
