"""A stand-in for a GPU on a machine without one: tensors that report a CUDA device and compute on the CPU.

``second_device()`` is a context in which factories, ``.to`` and arithmetic on that device work. Operations
follow the rules of a real GPU: tensors on two devices do not mix, except CPU scalars, CPU indices and copies. So a
tensor that was made on the wrong device raises here, as it would there, with the operation's name.
"""

import contextlib
import ctypes
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import _C, Tensor
from torch._C import _only_lift_cpu_tensors, _set_only_lift_cpu_tensors, _TorchDispatchModeKey
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

SECOND = torch.device("cuda:0")
#: Whether this build of torch has a guard of a device without a GPU.
GUARDED = torch.version.cuda is None or hasattr(_C, "_ensureCUDADeviceGuardSet")
_C10 = Path(torch.__file__).parent / "lib" / "libc10.so"
_CPU = torch.device("cpu")
# operations that read a tensor on one device and write to another
_COPIES = {"_to_copy", "copy_", "_local_scalar_dense", "item"}
# a GPU takes its indices from the CPU; a CPU does not take them from a GPU
_INDEXED = {"index", "index_put_", "index_put", "_index_put_impl_"}


class SecondDeviceError(RuntimeError):
    """An operation got tensors on two devices."""


class OnSecond(Tensor):
    """A tensor that reports the second device; ``inner`` holds its numbers on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "OnSecond":
        made = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=SECOND, requires_grad=False,
        )  # fmt: skip
        made.inner = inner
        return made

    def __repr__(self, **_: Any) -> str:
        return f"{self.inner!r} on {SECOND}"

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert a tensor on {SECOND} to numpy; use Tensor.cpu() first")

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class _Factories(TorchDispatchMode):
    """Makes tensors on the second device where a factory names it, which this build of torch has not."""

    # torch initialises CUDA for a factory unless a mode of this kind is active
    _mode_key = _TorchDispatchModeKey.FAKE

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


@contextlib.contextmanager
def second_device() -> Iterator[torch.device]:
    """Provide the second device, as a context."""
    before = _only_lift_cpu_tensors()
    _set_only_lift_cpu_tensors(True)  # `torch.tensor(..., device=)` makes a CPU tensor, and then moves it
    try:
        with _device_guard(), _Factories():
            yield SECOND
    finally:
        _set_only_lift_cpu_tensors(before)


@contextlib.contextmanager
def _device_guard() -> Iterator[None]:
    """Provide a guard of the device, which indexing and slicing need: that of the device ``meta``, which does nothing.

    A build of torch without CUDA has none. Where there is one, without a GPU, torch has a call for it.
    """
    types = {"cuda": 1, "meta": 14}  # places in c10::DeviceType
    registry = (ctypes.c_void_p * 32).in_dll(ctypes.CDLL(_C10), "_ZN3c104impl26device_guard_impl_registryE")
    before = registry[types["cuda"]]
    if before is None:
        registry[types["cuda"]] = registry[types["meta"]]
    else:
        _C._ensureCUDADeviceGuardSet()
    try:
        yield
    finally:
        registry[types["cuda"]] = before


def onto(model: Any) -> Any:
    """Move a module onto the second device, in place, and return it."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if not isinstance(parameter, OnSecond):
                there = OnSecond(parameter.detach())
                setattr(module, name, torch.nn.Parameter(there, requires_grad=parameter.requires_grad))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, _outer(buffer))
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    return model


def _run(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _check(function, args, kwargs)
    device = kwargs.get("device")
    named = device is not None and torch.device(device).type == SECOND.type
    from_second = any(isinstance(each, OnSecond) for each in tree_iter((args, kwargs)))
    if named:
        kwargs = {**kwargs, "device": _CPU}
    if _name(function) == "copy_":  # in place: the written tensor keeps its device
        args[0].inner.copy_(_inner(args[1])) if isinstance(args[0], OnSecond) else args[0].copy_(_inner(args[1]))
        return args[0]
    found = function(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    if _writes_first(function):
        return args[0]
    if _name(function) == "_to_copy" and device is not None:
        return _outer(found) if named else found
    return tree_map(_outer, found) if named or from_second else found


def _name(function: Any) -> str:
    return str(function.overloadpacket.__name__)


def _writes_first(function: Any) -> bool:
    arguments = function._schema.arguments
    return bool(arguments and arguments[0].alias_info is not None and arguments[0].alias_info.is_write)


def _check(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if tensors on two devices meet in an operation that does not take them."""
    if _name(function) in _COPIES:
        return
    read = args
    if _name(function) in _INDEXED and isinstance(args[0], OnSecond):
        read = (args[0], *args[2:])
    tensors = [each for each in tree_iter((read, kwargs)) if isinstance(each, Tensor)]
    devices = {each.device for each in tensors if each.ndim or isinstance(each, OnSecond)}
    if len(devices) > 1:
        shapes = ", ".join(f"{tuple(each.shape)} on {each.device.type}" for each in itertools.islice(tensors, 5))
        raise SecondDeviceError(f"{function} got tensors on two devices: {shapes}")


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OnSecond) else value


def _outer(value: Any) -> Any:
    return OnSecond(value) if isinstance(value, Tensor) and not isinstance(value, OnSecond) else value
