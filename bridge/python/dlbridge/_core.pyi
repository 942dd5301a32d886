"""The DLPack protocol of dlbridge in C, and the functions that `tens` and the formats call."""

import sys
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, TracebackType
from typing import Any, ClassVar, Final, Never, Protocol, SupportsFloat, SupportsIndex, TypeVar, final, overload

from numpy import bool_, generic
from numpy.typing import NDArray
from typing_extensions import Buffer, CapsuleType, Self

from ._elements import Elements

class _Producer(Protocol):
    def __dlpack__(self) -> Any: ...

_Out = TypeVar("_Out", bound=_Producer)
_Source = _Producer | CapsuleType | complex | generic
_Header = tuple[int, bytes, bytes | None, int, int, int]
_Index = SupportsIndex | slice | EllipsisType | None
_Shape = SupportsIndex | Sequence[SupportsIndex]
_Factors = SupportsFloat | Sequence[SupportsFloat] | None

@final
class DType(str):
    """The data type of a Tensor: a str that is equal to every name of the type."""
    itemsize: Final[int]
    """The size of one element in bytes, with all lanes, rounded up to whole bytes."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Tensor:
    """A view of memory, and a share in its ownership."""
    def __init__(self, _: Never, /) -> None: ...  # functions make Tensors
    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    shape: Final[tuple[int, ...]]
    """The sizes of the dimensions, a tuple of int."""
    strides: Final[tuple[int, ...]]
    """The strides in elements, a tuple of int."""
    ndim: Final[int]
    """The number of dimensions."""
    size: Final[int]
    """The number of elements: the product of the shape."""
    itemsize: Final[int]
    """The size of one element in bytes, rounded up to whole bytes."""
    nbytes: Final[int]
    """The size of the elements in bytes, without gaps."""
    dtype: Final[DType]
    """The data type, a str such as 'float32', 'bfloat16' or 'float32x4'."""
    device: Final[tuple[int, int]]
    """The DLPack device, a tuple (type, id); (1, 0) is the CPU."""
    readonly: Final[bool]
    """Whether the memory must not be written. It is also True if the producer could not state that the memory is writable."""
    data_ptr: Final[int]
    """The address of element (0, ..., 0), with byte_offset added. It is 0 if there are no elements."""
    closed: Final[bool]
    """Whether the tensor was closed, or could not be handed over to this process (dlbridge.shm)."""
    @property
    def T(self) -> Tensor:
        """A view with the dimensions in reverse order, as transpose() returns it."""
    @overload
    def __eq__(self, other: NDArray[Any], /) -> NDArray[bool_]: ...  # type: ignore[overload-overlap]
    @overload
    def __eq__(self, other: object, /) -> bool: ...
    @overload
    def __ne__(self, other: NDArray[Any], /) -> NDArray[bool_]: ...  # type: ignore[overload-overlap]
    @overload
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: _Index | tuple[_Index, ...], /) -> Tensor: ...
    def __setitem__(self, index: _Index | tuple[_Index, ...], value: _Source, /) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __format__(self, spec: str, /) -> str: ...
    @overload
    def reshape(self, shape: _Shape, /, *, copy: bool | None = None) -> Tensor:
        """Returns a view with another shape, in which the elements keep their row-major order."""
    @overload
    def reshape(self, *shape: SupportsIndex, copy: bool | None = None) -> Tensor:
        """Returns a view with another shape, in which the elements keep their row-major order."""
    @overload
    def transpose(self, axes: Sequence[SupportsIndex] | None, /) -> Tensor:
        """Returns a view with the dimensions in another order: dimension k of the view is dimension axes[k] of the tensor."""
    @overload
    def transpose(self, *axes: SupportsIndex) -> Tensor:
        """Returns a view with the dimensions in another order: dimension k of the view is dimension axes[k] of the tensor."""
    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Tensor:
        """Returns a view with two dimensions swapped."""
    def moveaxis(
        self, source: SupportsIndex | Sequence[SupportsIndex], destination: SupportsIndex | Sequence[SupportsIndex]
    ) -> Tensor:
        """Returns a view with dimensions moved to other places."""
    def ravel(self) -> Tensor:
        """Returns a 1-d tensor of the elements in row-major order, as reshape(-1) does. It is a view if possible."""
    def flatten(self) -> Tensor:
        """Returns a 1-d copy of the elements in row-major order. ravel() copies only if it must."""
    def view(self, dtype: Any) -> Tensor:
        """Returns a tensor on the same memory that reads its bytes as elements of another data type."""
    def squeeze(self, axis: SupportsIndex | Sequence[SupportsIndex] | None = None) -> Tensor:
        """Returns a view without dimensions of size 1: without all of them, or without those that axis names."""
    def flip(self, axis: SupportsIndex | Sequence[SupportsIndex] | None = None) -> Tensor:
        """Returns a view with the elements in reverse order along each dimension that axis names, or along all (None)."""
    def broadcast_to(self, shape: _Shape) -> Tensor:
        """Returns a view of the given shape, in which elements are repeated."""
    def contiguous(self) -> Tensor:
        """Returns a row-major tensor without gaps: a view if the tensor is row-major already, and a copy otherwise."""
    def copy(self) -> Tensor:
        """Returns a row-major, writable copy in new memory."""
    @overload
    def convert(
        self,
        dtype: Any,
        *,
        out: None = None,
        scale: _Factors = None,
        shift: _Factors = None,
        axis: SupportsIndex = -1,
    ) -> Tensor:
        """Returns a row-major copy of another data type, or writes the elements to `out` and returns `out`."""
    @overload
    def convert(
        self,
        dtype: Any = None,
        *,
        out: _Out,
        scale: _Factors = None,
        shift: _Factors = None,
        axis: SupportsIndex = -1,
    ) -> _Out:
        """Returns a row-major copy of another data type, or writes the elements to `out` and returns `out`."""
    def astype(self, dtype: Any) -> Tensor:
        """Returns convert(dtype), under NumPy's name. As in NumPy, None stands for float64."""
    def tolist(self) -> Any:
        """Returns the elements as nested lists of Python numbers, or one number for a tensor of 0 dimensions."""
    def tobytes(self) -> bytes:
        """Returns a copy of the elements in row-major order, as bytes(tensor) does."""
    @overload
    def item(self, index: tuple[SupportsIndex, ...], /) -> Any:
        """Returns one element as a Python number: a bool, int, float or complex."""
    @overload
    def item(self, *index: SupportsIndex) -> Any:
        """Returns one element as a Python number: a bool, int, float or complex."""
    def numpy(self) -> NDArray[Any]:
        """Returns a NumPy array on the same memory."""
    def close(self) -> None:
        """Releases the tensor's share of its memory. Further calls have no effect."""
    def on_release(self, function: Callable[[], object], /) -> None:
        """Calls function() once, after the last holder has released the memory of the tensor."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Callable[..., Tensor], tuple[Any, ...]]: ...
    def __copy__(self) -> Tensor: ...
    def __deepcopy__(self, memo: Any, /) -> Tensor: ...
    def __dir__(self) -> list[str]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
    def __jax_array__(self) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def from_dlpack(
    producer: _Source,
    /,
    *,
    device: tuple[int, int] | str | None = None,
    copy: bool | None = None,
    stream: int | None = None,
) -> Tensor:
    """Returns a Tensor on the memory of any DLPack producer or capsule, without copying."""
def from_address(address: int, /) -> Tensor:
    """Takes over the DLManagedTensorVersioned at an address, such as the result of a C function."""
def to_address(producer: _Source, /) -> int:
    """Returns the address of a new DLManagedTensorVersioned on the producer's memory."""
def from_buffer(
    object: Buffer, /, dtype: Any = None, shape: _Shape | None = None, *, offset: SupportsIndex = 0
) -> Tensor:
    """Returns a Tensor on the memory of an object with a buffer, without copying."""
def empty(shape: _Shape, dtype: Any) -> Tensor:
    """Returns a row-major, writable Tensor of uninitialised CPU memory, aligned to 256 bytes."""
def zeros(shape: _Shape, dtype: Any) -> Tensor:
    """Returns a row-major, writable Tensor of zeros in CPU memory, aligned to 256 bytes."""
def load(path: Any, /) -> None: ...
def counters() -> dict[str, int]:
    """Returns the numbers of live objects as a dict."""
def function(
    name: str,
    call: Any,
    names: tuple[str, ...] | None,
    like: Callable[..., None],
    arguments: tuple[Callable[[Any], Any] | None, ...],
    kinds: tuple[Any, ...],
    letters: bytes,
    to: Callable[[Tensor], Any] | None,
    of_ctypes: tuple[Callable[[Any], Any], type, type, tuple[type, ...], Callable[..., Any]],
    refusal: type[BaseException] | None,
    address: int,
    direct: bool,
    takes_error: bool,
    returns: int,
    reduce: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]],
    device: tuple[int, int] | str | None,
    /,
) -> Callable[..., Any]: ...
def dtype_of(object: Any, /) -> str: ...
def aligned(tensor: Tensor, /) -> Tensor: ...
def pickle_bytes(tensor: Tensor, /) -> tuple[Tensor | None, bool]: ...
def pickle_tensor(elements: Buffer, dtype: str, shape: _Shape, padded: bool, /) -> Tensor: ...
def pickle_missing(why: str, /) -> Tensor: ...
def library_counters() -> dict[str, int]: ...
def require_library() -> None: ...
def check_limit(limit: int, /) -> None: ...
def tens_decode(frames: Sequence[Buffer], message_only: bool, join: bool, limit: int, /) -> tuple[Any, ...]: ...
def tens_encode(
    header: _Header,
    metadata: bytes | None,
    tensors: tuple[Any, ...],
    tensor_metadata: tuple[bytes | None, ...],
    spread: int,
    relay: tuple[_Header, Sequence[Buffer]] | None = None,
    /,
) -> list[memoryview]: ...
def tens_encode_parts(header: _Header, parts: Sequence[Buffer], /) -> list[memoryview]: ...
def tens_encode_frames(frames: Sequence[Buffer], /) -> bytes: ...
def tens_label_children(text: bytes, at: int, /) -> list[tuple[str | None, int, int, int]]: ...
def tens_decode_next(data: Buffer, offset: int, /) -> tuple[list[memoryview], int]: ...
def tens_decode_frames(data: Buffer, /) -> list[memoryview]: ...
def value_decode(
    format: str, data: Buffer, options: int, limit: int | None, copies: bool, elements: type[Elements], /
) -> Tensor | Elements: ...
def value_decode_batch(
    format: str, data: Buffer, offset: int, options: int, copies: bool, elements: type[Elements], /
) -> tuple[list[Tensor | Elements], int]: ...
def value_encode(format: str, x: Any, options: int, elements: type[Elements], /) -> bytes: ...
def value_check(format: str, rules: bytes, x: Any, elements: type[Elements], /) -> None: ...
def file_open(path: Any, flags: int, dtype: Any, /) -> CapsuleType: ...
def file_format(file: CapsuleType, /) -> str: ...
def file_entries(
    file: CapsuleType, /
) -> list[tuple[str, str, DType | None, tuple[int, ...], int, int, bool, str, str, str]]: ...
def file_tensor(file: CapsuleType, index: int, copy: bool, /) -> Tensor: ...
def file_metadata(file: CapsuleType, /) -> bytes: ...
def file_check(file: CapsuleType, sync: bool, /) -> None: ...
def file_write(
    path: Any,
    format: str,
    names: tuple[str, ...],
    tensors: tuple[Any, ...],
    metadata: bytes | None,
    align: int,
    progress: Callable[[int, int], object] | None,
    /,
) -> None: ...

if sys.platform == "linux":
    def shm_zeros(shape: int | Sequence[int], dtype: Any) -> Tensor: ...
    def shm_copy(tensor: Tensor, /) -> Tensor: ...
    def shm_recv(socket: int, timeout: float | None, copy_unsealed: int, /) -> list[Tensor]: ...
    def shm_send(socket: int, timeout: float | None, tensors: tuple[Tensor, ...], writable: bool, /) -> None: ...
    def shm_pickle(tensor: Tensor, milliseconds: int, /) -> tuple[bytes, str, str] | str | None: ...
    def shm_unpickle(data: bytes, socket: str, token: str, seconds: float, /) -> Tensor | Exception: ...
    def shm_offer(tensor: Tensor, writable: bool, milliseconds: int, /) -> tuple[str, str, int, int]: ...
    def shm_check(tensor: Tensor, writable: bool, /) -> None: ...
    def shm_offers_made() -> int: ...
    def shm_offer_count(made: int = ..., /) -> int: ...
    def shm_offers_end() -> None: ...
    def shm_check_handle(socket: str, token: str, offset: int, size: int, bytes: int, /) -> None: ...
    def shm_fetch(
        socket: str, token: str, offset: int, size: int, shape: Any, dtype: Any, writable: bool, seconds: float, copy_unsealed: int, /
    ) -> Tensor: ...
    def shm_attach(
        directory: str, name: str, offset: int, shape: Any, dtype: Any, writable: bool, trusted: bool, /
    ) -> Tensor: ...
    def shm_readonly(tensor: Tensor, /) -> Tensor: ...
    def shm_is_shared(tensor: Tensor, /) -> bool: ...
    def shm_mappings() -> int: ...
