"""Operations that the CPU does for the device.

Every operation without a kernel of its own falls back: its tensors are copied to the host, the CPU does the
work, results go back. The first time that an operation does so, it says so with a :class:`FallbackWarning`.
``SPYRE_FALLBACK`` chooses otherwise: ``error`` refuses, ``silent`` says nothing.

To have the CPU do an operation in a way of your own:

    @register_fallback("aten::frac")
    def frac(x):              # on the host's copies
        return x - x.trunc()

To have it do an operation that the device has a kernel for:

    register_fallback_default("aten::mm")
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Union

import torch
from torch._ops import OpOverload, OpOverloadPacket

from .. import _C
from ..logging_config import get_logger

__all__ = [
    "FallbackWarning",
    "fallback_mode",
    "fallback_ops",
    "fallback_stats",
    "register_fallback",
    "register_fallback_default",
    "reset_fallback_stats",
    "set_fallback_mode",
    "warn_fallback",
]

Op = Union[str, OpOverload, OpOverloadPacket]


class FallbackWarning(UserWarning):
    """An operation is done by the CPU, at the cost of copies there and back."""


fallback_ops: list[str] = []
"""The operations that were registered here, such as ``"aten::frac"``."""

_libraries: dict[str, torch.library.Library] = {}
_functions: dict[str, Callable[..., Any]] = {}
_KEY = "PrivateUse2"
"""Functions are kernels of a key that no tensor has: ``csrc/fallback.cpp`` calls them with copies on the host."""


def fallback_stats() -> dict[str, int]:
    """Returns how often each operation was done by the CPU."""
    return _C.fallback_stats()


def reset_fallback_stats() -> None:
    """Starts counting from zero; operations say again that they fall back."""
    _C.reset_fallback_stats()


def fallback_mode() -> str:
    """``"warn"``, ``"error"`` or ``"silent"``."""
    return _C.fallback_mode()


def set_fallback_mode(mode: str) -> str:
    """Sets it, and tells what it was."""
    previous = _C.fallback_mode()
    _C.set_fallback_mode(mode)
    return previous


def warn_fallback(op: Op, stacklevel: int = 1) -> None:
    """Says that an operation is done by the CPU, at the caller's line: the first one outside of PyTorch."""
    name = op if isinstance(op, str) else op.name() if isinstance(op, OpOverload) else str(op)
    get_logger("runtime").info("%s is falling back to cpu", name)
    warnings.warn(f"{name} is falling back to cpu", FallbackWarning, stacklevel=_callers_level() + stacklevel)


def register_fallback(ops: Op | Iterable[Op]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Has a function do one or more operations, with copies of the tensors on the host.

    The function is called as the operation is, with CPU tensors in place of the device's; those that were one
    tensor, or shared memory, still do. Its results go to the device that the tensors came from. What an
    operation writes to (``out=``, or itself) is copied back and is what is returned.

    An overload is named in full (``"aten::add.Tensor"``); a name without one means all that compute anew or in
    place, views excepted.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in _overloads(ops):
            _register(overload, function)
        return function

    return register


def register_fallback_default(ops: Op | Iterable[Op]) -> None:
    """Has the CPU's own kernels do one or more operations, also where the device has its own."""
    for overload in _overloads(ops):
        _register(overload, overload)


def _register(overload: OpOverload, function: Callable[..., Any]) -> None:
    name = overload.name()
    namespace, _, rest = name.partition("::")
    if name not in _functions:
        _C.register_fallback(namespace, rest)
        library = _libraries.setdefault(namespace, torch.library.Library(namespace, "IMPL"))
        # What is called is looked up, so that to register an operation again replaces the function.
        library.impl(rest, functools.partial(_call, name), _KEY)
        fallback_ops.append(name)
    _functions[name] = function


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return _functions[name](*args, **kwargs)


def _overloads(ops: Op | Iterable[Op]) -> list[OpOverload]:
    if isinstance(ops, (str, OpOverload, OpOverloadPacket)):
        ops = [ops]
    return [overload for op in ops for overload in _overloads_of(op)]


def _overloads_of(op: Op) -> list[OpOverload]:
    if isinstance(op, OpOverload):
        _refuse_views(op)
        return [op]
    if isinstance(op, str):
        namespace, colons, rest = op.partition("::")
        if not colons:
            namespace, rest = "aten", op
        name, _, overload = rest.partition(".")
        try:
            packet = getattr(getattr(torch.ops, namespace), name)
            if overload:
                return _overloads_of(getattr(packet, overload))
        except AttributeError:
            raise ValueError(f"there is no operation {op!r}") from None
    else:
        packet = op
    overloads = [getattr(packet, name) for name in packet.overloads()]
    # TorchScript keeps overloads for numbers and texts that no device ever sees.
    return [o for o in overloads if torch._C._dispatch_has_kernel(o.name()) and not _is_view(o)]


def _is_view(overload: OpOverload) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in overload._schema.returns)


def _refuse_views(overload: OpOverload) -> None:
    if _is_view(overload):
        raise ValueError(f"{overload.name()} gives a view of its argument: the CPU cannot make one of device memory")


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in _tensors(item)]


def _callers_level() -> int:
    """Returns the number of frames from ``warn_fallback`` to the first outside PyTorch and this package."""
    level = 0
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", "torch_spyre"):
        level, frame = level + 1, frame.f_back
    return level if frame is not None else 1


# Last, so that what the program itself says of warnings counts.
warnings.filterwarnings("once", category=FallbackWarning, append=True)
