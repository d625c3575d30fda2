"""Layouts of tensors in device memory, and how to choose them.

A tensor on the device lies in sticks of 128 bytes. By default its last dimension runs along them; a
program can choose others, with ``stick_dims=`` or a whole ``device_layout=``, wherever a tensor is made
or moved:

>>> weight = weight.to("spyre", stick_dims=[0])
>>> cache = torch.zeros(shape, dtype=torch.float16, device_layout=layout)
>>> weight.device_tensor_layout().device_size
[16, 4096, 64]

:func:`install` gives PyTorch's functions these keywords. They stay the objects that they are, and calls without
the keywords go on as they came.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _C
from ._C import DataFormats, ElementArrangement, SpyreTensorLayout, get_device_dtype, get_elem_in_stick
from .constants import DEVICE_NAME

__all__ = [
    "DataFormats",
    "ElementArrangement",
    "SpyreTensorLayout",
    "as_strided_with_layout",
    "copy_tensor",
    "device_tensor_layout",
    "empty_with_layout",
    "from_device",
    "get_device_dtype",
    "get_elem_in_stick",
    "get_spyre_tensor_layout",
    "get_stick_dims",
    "install",
    "reinterpret_tensor",
    "reinterpret_tensor_with_layout",
    "restickify",
    "set_spyre_tensor_layout",
    "set_stick_dims",
    "spyre_empty_strided",
    "spyre_empty_with_layout",
]

_ops = torch.ops.spyre


# What a tensor's layout is.


def device_tensor_layout(tensor: torch.Tensor) -> SpyreTensorLayout | None:
    """Returns the layout of the tensor's storage in device memory; ``None`` if it is not on the device.

    A fake tensor has that of the tensor that it stands for, as far as it is known.
    """
    if tensor.device.type != DEVICE_NAME:
        return None
    if _is_fake(tensor):
        _check_caller()
        from .fake_layouts import layout_of_fake

        return layout_of_fake(tensor)
    return _C._take_layout(_ops._layout_of(tensor))


def get_spyre_tensor_layout(tensor: torch.Tensor) -> SpyreTensorLayout:
    """Returns the layout of the tensor's storage in device memory. Raises if it is not on the device."""
    _check_tensor(tensor)
    return device_tensor_layout(tensor)


def set_spyre_tensor_layout(tensor: torch.Tensor, stl: SpyreTensorLayout) -> None:
    """Has this tensor see its device memory through another layout. Nothing is moved.

    Other tensors of the storage keep theirs. :func:`set_stick_dims` and :func:`restickify` move.
    """
    _check_tensor(tensor)
    _ops._set_layout(tensor, _handed(stl))


def get_stick_dims(tensor: torch.Tensor) -> list[int]:
    """The tensor's dimensions that are padded to whole sticks, the one along the stick last.

    None are where each stick holds one element.
    """
    _check_tensor(tensor)
    _check_caller()
    layout = device_tensor_layout(tensor)
    if layout is None:
        raise RuntimeError("the layout of this fake tensor is not known")
    return [_own_dim(tensor, layout, dim) for dim in layout.stick_dims()]


def set_stick_dims(tensor: torch.Tensor, stick_dims: Sequence[int]) -> torch.Tensor:
    """Moves the tensor's storage into other sticks. Its values stay, and so do all views of it.

    The tensor must be all of its storage: what is a view of more has no say in it.
    """
    _check_tensor(tensor)
    _check_caller()
    layout = _layout(tensor, tensor.dtype, None, stick_dims)
    if _is_fake(tensor):
        from .fake_layouts import keep_layout

        keep_layout(tensor, layout)
    else:
        _ops._relayout_(tensor, _handed(layout))
    return tensor


def restickify(tensor: torch.Tensor, stick_dims: Sequence[int]) -> torch.Tensor:
    """A new tensor with the same values in other sticks."""
    _check_tensor(tensor)
    return _ops.restickify(tensor, stick_dims)


def from_device(tensor: torch.Tensor, *, non_blocking: bool = False) -> torch.Tensor:
    """The tensor in host memory; itself, if it is there already."""
    return tensor.to("cpu", non_blocking=non_blocking)


def copy_tensor(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copies a tensor to one of the same size, to or from the device, converted if their dtypes differ."""
    return target.copy_(source, non_blocking=non_blocking)


# Tensors with a layout.


def spyre_empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    *,
    device_layout: SpyreTensorLayout | None = None,
    stick_dims: Sequence[int] | None = None,
    requires_grad: bool = False,
) -> torch.Tensor:
    """Device memory with anything in it, for a tensor of this size and stride."""
    device = _device(device, None)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if device_layout is None and stick_dims is None:
        made = torch.empty_strided(size, stride, dtype=dtype, device=device)
    else:
        host = torch.empty_strided(size, stride, dtype=dtype, device="meta")
        made = _empty(host, device, _layout(host, dtype, device_layout, stick_dims))
    return made.requires_grad_(requires_grad)


def spyre_empty_with_layout(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, stl: SpyreTensorLayout
) -> torch.Tensor:
    """Device memory with anything in it, laid out by ``stl``."""
    return spyre_empty_strided(size, stride, dtype, device_layout=stl)


def empty_with_layout(
    size: Sequence[int],
    stl: SpyreTensorLayout,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """``torch.empty`` with a layout."""
    options = {"dtype": dtype, "device": device, "pin_memory": pin_memory}
    if memory_format is not None:
        options["memory_format"] = memory_format
    return torch.empty(size, **options, device_layout=stl)


def as_strided_with_layout(
    tensor: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
    stl: SpyreTensorLayout,
) -> torch.Tensor:
    """A view that sees the device memory through a layout of its own."""
    _check_tensor(tensor)
    return _ops._as_strided_with_layout(tensor, size, stride, storage_offset, _handed(stl))


def reinterpret_tensor(
    tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset_increment: int = 0
) -> torch.Tensor:
    """A view that begins so many elements behind the tensor's first."""
    return tensor.as_strided(size, stride, tensor.storage_offset() + offset_increment)


def reinterpret_tensor_with_layout(
    tensor: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    offset_increment: int,
    stl: SpyreTensorLayout,
) -> torch.Tensor:
    """Like :func:`reinterpret_tensor`, but the view has a layout of its own."""
    offset = tensor.storage_offset() + offset_increment
    return as_strided_with_layout(tensor, size, stride, offset, stl)


# PyTorch's functions, with the keywords.

_EMPTY = ("empty", "empty_strided", "empty_permuted")
_FILLED = {"zeros": 0, "ones": 1}
_MADE = (
    "full", "rand", "randn", "randint", "randperm", "arange", "range", "linspace",
    "logspace", "eye", "tensor", "as_tensor", "asarray", "scalar_tensor",
)  # fmt: skip
_EMPTY_LIKE = ("empty_like",)
_FILLED_LIKE = {"zeros_like": 0, "ones_like": 1}
_MADE_LIKE = ("full_like", "rand_like", "randn_like", "randint_like")
_METHODS = {
    "new_empty": None, "new_empty_strided": None, "new_zeros": 0, "new_ones": 1,
    "new_full": ..., "new_tensor": ...,
}  # fmt: skip
_TENSOR_METHODS = (
    device_tensor_layout,
    get_stick_dims,
    set_stick_dims,
    restickify,
    from_device,
)


def install() -> None:
    """Gives PyTorch's factories and ``Tensor.to`` the keywords, and tensors their methods. Once."""
    if getattr(torch.Tensor, "_spyre_tensor_patched", False):
        return
    factories = dict.fromkeys(_EMPTY + _EMPTY_LIKE) | _FILLED | _FILLED_LIKE
    factories |= dict.fromkeys(_MADE + _MADE_LIKE, ...)
    for name, fill in factories.items():
        _add_keywords(getattr(torch, name), fill)
    for name, fill in _METHODS.items():
        _add_keywords(getattr(torch.Tensor, name), fill)
    _C._add_keywords(torch.Tensor.to, _to)
    for method in _TENSOR_METHODS:
        setattr(torch.Tensor, method.__name__, method)
    for name in __all__:
        if not hasattr(_C, name) and name != "install":
            setattr(_C, name, globals()[name])
    _leave_to_the_interpreter()
    torch.Tensor._spyre_tensor_patched = True


def _leave_to_the_interpreter() -> None:
    """Has Dynamo compile nothing of this file: after a graph break its functions are called, not traced."""
    dynamo = torch._C._dynamo.eval_frame
    skip = dynamo._FrameExecStrategy(dynamo._FrameAction.SKIP, dynamo._FrameAction.SKIP)
    for function in globals().values():
        if isinstance(function, types.FunctionType) and function.__module__ == __name__:
            dynamo.set_code_exec_strategy(function.__code__, skip)
            for constant in function.__code__.co_consts:
                if isinstance(constant, types.CodeType):
                    dynamo.set_code_exec_strategy(constant, skip)


def _add_keywords(function: Callable[..., torch.Tensor], fill: Any) -> None:
    _C._add_keywords(function, _factory(function, fill))


def _factory(original: Callable[..., torch.Tensor], fill: Any) -> Callable[..., torch.Tensor]:
    """Returns a function that makes tensors with a layout. ``fill`` is ``None`` for uninitialized memory, a
    number for memory that is filled with it, and ``...`` where values are copied from PyTorch's result."""

    def make(*args, device_layout=None, stick_dims=None, requires_grad=False, **kwargs):
        if device_layout is None and stick_dims is None:
            kwargs = kwargs | {"requires_grad": True} if requires_grad else kwargs
            return original(*args, **kwargs)
        _check_options(original, kwargs)
        if kwargs.get("memory_format") == torch.preserve_format and _first_tensor(args) is None:
            del kwargs["memory_format"]  # of nothing: PyTorch refuses it on its own devices
        kwargs["device"] = device = _device(kwargs.get("device"), _first_tensor(args))
        if fill is ... or _is_faking():
            made = _to(original(*args, **kwargs), device_layout=device_layout, stick_dims=stick_dims)
        else:
            host = original(*args, **kwargs | {"device": "meta"})
            made = _empty(host, device, _layout(host, host.dtype, device_layout, stick_dims))
            made = made if fill is None else made.fill_(fill)
        return made.requires_grad_(requires_grad)

    return make


def _to(self, *args, device_layout=None, stick_dims=None, **kwargs):
    if device_layout is None and stick_dims is None:
        return torch.Tensor.to(self, *args, **kwargs)
    device, dtype, non_blocking, copy, memory_format = _to_arguments(self, *args, **kwargs)
    _check_format(memory_format)
    device = _device(device, self)
    if _is_faking():
        made = self.to(device, dtype, non_blocking=non_blocking, memory_format=memory_format)
        return _in_graph(made, device_layout, stick_dims)
    host = torch.empty_like(self, dtype=dtype, device="meta", memory_format=memory_format)
    layout = _layout(host, dtype, device_layout, stick_dims)
    is_there = self.device == device and self.dtype == dtype
    if is_there and not copy and device_tensor_layout(self) == layout:
        return self
    made = _empty(host, device, layout)
    return made.copy_(self, non_blocking=non_blocking)


def _in_graph(tensor, device_layout, stick_dims):
    """The tensor with a layout, as operators that graphs can have."""
    _layout(tensor, tensor.dtype, device_layout, stick_dims)
    if device_layout is None:
        return _ops.restickify(tensor, [int(dim) for dim in stick_dims])
    from .fake_layouts import in_layout

    return in_layout(tensor, device_layout)


def _to_arguments(self, *args, **kwargs):
    """``Tensor.to``'s arguments by all of its signatures: device, dtype, non_blocking, copy, format."""
    if "other" in kwargs:
        args = (kwargs.pop("other"), *args)
    first = args[0] if args else None
    if isinstance(first, torch.Tensor):
        names = ("non_blocking", "copy")
        given = {"device": first.device, "dtype": first.dtype}
        args = args[1:]
    elif isinstance(first, torch.dtype):
        names, given = ("dtype", "non_blocking", "copy"), {}
    else:
        names, given = ("device", "dtype", "non_blocking", "copy"), {}
    if len(args) > len(names):
        raise TypeError(f"to() takes at most {len(names)} positional arguments, not {len(args)}")
    given |= dict(zip(names, args))
    known = ("device", "dtype", "non_blocking", "copy", "memory_format")
    for name, value in kwargs.items():
        if name in given or name not in known:
            raise TypeError(f"to() got an unexpected keyword argument {name!r}")
        given[name] = value
    return (
        given.get("device"),
        self.dtype if given.get("dtype") is None else given["dtype"],
        bool(given.get("non_blocking", False)),
        bool(given.get("copy", False)),
        given.get("memory_format") or torch.preserve_format,
    )


# What they share.


def _is_fake(tensor: torch.Tensor) -> bool:
    """Returns True for a fake tensor, without device memory. Does not import the FakeTensor class."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(tensor, module.FakeTensor)


def _check_caller() -> None:
    """Refuses a call that Dynamo records: a graph serves all layouts of its inputs. It is left to the interpreter."""
    caller = sys._getframe(2).f_code
    if caller.co_name == "run_node" and caller.co_filename.endswith("torch/_dynamo/utils.py"):
        raise NotImplementedError("a compiled graph serves tensors of any layout: read or set layouts outside of it")


def _is_faking() -> bool:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def _check_tensor(tensor: torch.Tensor) -> None:
    if tensor.device.type != DEVICE_NAME:
        raise RuntimeError(f"expected a tensor on {DEVICE_NAME!r}, not on {str(tensor.device)!r}")


def _check_options(original: Callable[..., torch.Tensor], options: dict[str, Any]) -> None:
    if options.get("out") is not None:
        raise TypeError(f"{original.__name__}(): a layout cannot be given together with out=")
    if options.pop("pin_memory", None):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    _check_format(options.get("memory_format"))


def _check_format(memory_format: torch.memory_format | None) -> None:
    is_usual = memory_format in (None, torch.contiguous_format, torch.preserve_format)
    if not is_usual and _C._is_card_profile():
        raise RuntimeError("Spyre backend only supports contiguous memory format")


def _device(device: torch.device | str | int | None, like: torch.Tensor | None) -> torch.device:
    """The device that is asked for: with a layout, that is one of ours."""
    if device is None:
        known = (like.device if like is not None else None, torch.get_default_device())
        device = next((d for d in known if d is not None and d.type == DEVICE_NAME), DEVICE_NAME)
    device = torch.device(DEVICE_NAME, device) if isinstance(device, int) else torch.device(device)
    if device.type != DEVICE_NAME:
        raise RuntimeError(
            f"device_layout= and stick_dims= are for tensors on {DEVICE_NAME!r}, not on "
            f"{str(device)!r}"
        )
    return device if device.index is not None else torch.device(DEVICE_NAME, torch._C._accelerator_getDeviceIndex())


def _first_tensor(args: tuple[Any, ...]) -> torch.Tensor | None:
    return args[0] if args and isinstance(args[0], torch.Tensor) else None


def _layout(
    host: torch.Tensor,
    dtype: torch.dtype,
    device_layout: SpyreTensorLayout | None,
    stick_dims: Sequence[int] | None,
) -> SpyreTensorLayout:
    """The layout that is asked for, of a tensor with this size and stride on the host."""
    if device_layout is None:
        if not all(isinstance(number, int) for number in (*host.size(), *host.stride())):
            from .fake_layouts import layout_of_shape

            return layout_of_shape(host.size(), host.stride(), dtype, stick_dims)
        return SpyreTensorLayout.with_stick_dims(host.size(), host.stride(), dtype, stick_dims)
    if stick_dims is not None:
        raise TypeError("give device_layout= or stick_dims=, not both")
    if not isinstance(device_layout, SpyreTensorLayout):
        raise TypeError(f"device_layout= must be a SpyreTensorLayout, not {type(device_layout).__name__}")
    return device_layout


def _own_dim(tensor: torch.Tensor, layout: SpyreTensorLayout, dim: int) -> int:
    """Returns the dimension of this view that is ``dim`` of the storage's host shape."""
    if tensor.dim() == len(layout.dma_sizes) and list(tensor.stride()) == layout.dma_strides:
        return dim
    strides = zip(tensor.stride(), tensor.size())
    stride = layout.dma_strides[dim]
    own = [at for at, (own, size) in enumerate(strides) if own == stride and size > 1]
    if len(own) != 1:
        raise RuntimeError(
            f"the sticks run along a dimension of stride {stride}, which is none of this view's: "
            f"size {list(tensor.size())}, stride {list(tensor.stride())}"
        )
    return own[0]


def _handed(layout: SpyreTensorLayout) -> int:
    if not isinstance(layout, SpyreTensorLayout):
        raise TypeError(f"expected a SpyreTensorLayout, not {type(layout).__name__}")
    return layout._hand()


def _empty(host: torch.Tensor, device: torch.device, layout: SpyreTensorLayout) -> torch.Tensor:
    """Device memory for a tensor of ``host``'s size, stride and dtype."""
    return _ops._empty_with_layout(host.size(), host.stride(), _handed(layout), host.dtype, device)
