"""The module ``torch.spyre``.

It is put together from the files beside this one. Names that none of them has are the extension's: layouts,
formats, kernels.
"""

from __future__ import annotations

import types
from typing import Any, NoReturn

import torch

from . import _C, amp, graphs, memory, properties, random, streams
from ._devices import Device, DeviceContext, DeviceOf, device_index, existing_index
from ._runtime import runtime
from .logging_config import get_logger

_DOC = """The device spyre.

    x = torch.ones(3, device="spyre")

The runtime starts when it is first needed. Streams, events, memory, random numbers and devices have the names
that other devices' modules have.
"""


def make_spyre_module() -> types.ModuleType:
    """Makes the module that ``torch._register_device_module`` is given."""
    module = types.ModuleType("torch.spyre", _DOC)
    for source in (streams, random, memory, graphs):
        _take(module, source, source.__all__)
    _take(module, properties, _PROPERTIES)
    _take(module, runtime, _RUNTIME)
    for name, value in _own_names().items():
        setattr(module, name, value)
    module.__all__ = sorted(name for name in vars(module) if not name.startswith("_"))
    # Set last, so that nothing above reaches the extension by mistake.
    module.__getattr__ = _of_the_extension
    _complete_the_extension()
    return module


_PROPERTIES = (
    "can_device_access_peer",
    "clock_rate",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "is_bf16_supported",
    "is_tf32_supported",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
)

_RUNTIME = (
    "_is_in_bad_fork",
    "_lazy_call",
    "_lazy_init",
    "device_count",
    "is_available",
    "is_initialized",
)

# Inductor asks whether the device brings these.
_PROBED_BY_INDUCTOR = ("Scheduling", "GraphLowering", "Lowering", "Codegen", "Compile")


def _take(module: types.ModuleType, source: Any, names: Any) -> None:
    for name in names:
        setattr(module, name, getattr(source, name))


def _own_names() -> dict[str, Any]:
    from .ops import fallbacks

    return {
        "_impl": runtime,
        "_device_t": Device,
        "_exchange_device": exchange_device,
        "_get_device_index": device_index,
        "_get_generator": random._get_generator,
        "_get_rng_state_offset": random._get_rng_state_offset,
        "_is_compiled": _is_compiled,
        "_maybe_exchange_device": maybe_exchange_device,
        "_set_rng_state_offset": random._set_rng_state_offset,
        "_set_stream_by_id": streams._set_stream_by_id,
        "amp": amp,
        "change_current_allocator": change_current_allocator,
        "current_device": current_device,
        "device": DeviceContext,
        "device_of": DeviceOf,
        "exchange_device": exchange_device,
        "fallback_stats": fallbacks.fallback_stats,
        "get_amp_supported_dtype": get_amp_supported_dtype,
        "get_downcast_warning": get_downcast_warning,
        "get_stream_from_external": get_stream_from_external,
        "graphs": graphs,
        "init": init,
        "maybe_exchange_device": maybe_exchange_device,
        "memory": memory,
        "random": random,
        "reset_device": reset_device,
        "reset_fallback_stats": fallbacks.reset_fallback_stats,
        "set_device": set_device,
        "set_downcast_warning": set_downcast_warning,
        "SpyrePluggableAllocator": SpyrePluggableAllocator,
        "streams": streams,
        **dict.fromkeys(_PROBED_BY_INDUCTOR),
    }


def _complete_the_extension() -> None:
    """Names that users look for in ``_C`` and that are written in Python here."""
    from_python = {
        "_SpyreStreamBase": streams.Stream,
        "_get_default_generator": random._default_generator,
        "_spyre_get_allocator_stats": memory.memory_stats,
        "_spyre_reset_accumulated_stats": memory.reset_accumulated_memory_stats,
        "_spyre_reset_peak_stats": memory.reset_peak_memory_stats,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "get_stream_from_pool": streams.get_stream_from_pool,
        "manual_seed": random.manual_seed,
        "manual_seed_all": random.manual_seed_all,
        "set_current_stream": streams.set_current_stream,
        "synchronize": streams.synchronize,
    }
    for name, value in from_python.items():
        setattr(_C, name, value)


def _of_the_extension(name: str) -> Any:
    """A name that the module does not have. To ask for one that nobody has starts nothing."""
    if name.startswith("__") or not hasattr(_C, name):
        raise AttributeError(f"module 'torch.spyre' has no attribute {name!r}")
    if not runtime._is_in_bad_fork():
        runtime._lazy_init()
    return getattr(_C, name)


def init() -> None:
    """Starts the runtime now, rather than at first use."""
    runtime._lazy_init()


def current_device() -> int:
    """The index of the device that this thread has selected."""
    runtime._lazy_init()
    return torch._C._accelerator_getDeviceIndex()


def set_device(device: Device) -> None:
    """Selects a device for this thread. Before the runtime has started, it is selected when it starts."""
    index = existing_index(device)
    _C.set_device(index)
    get_logger("device").debug("selected device %d", index)


def exchange_device(device: int) -> int:
    """Selects a device and tells which one was selected; a negative index changes nothing."""
    if device < 0:
        return -1
    runtime._lazy_init()
    return torch._C._accelerator_exchangeDevice(existing_index(device))


def maybe_exchange_device(device: int) -> int:
    """The same."""
    return exchange_device(device)


def reset_device(device: Device = None) -> None:
    """Starts a device anew, after it was lost for instance. Tensors on it are gone: to use one is an error."""
    runtime._lazy_init()
    index = existing_index(device)
    get_logger("device").warning("device %d is reset: tensors on it are gone", index)
    _C.reset_device(index)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What ``torch.autocast("spyre", dtype=...)`` takes."""
    return [torch.float16, torch.bfloat16]


def get_downcast_warning() -> bool:
    """Whether tensors of int64, which the ``card`` profile keeps as int32, come with a warning."""
    return _C.get_downcast_warning()


def set_downcast_warning(enabled: bool) -> None:
    """Sets whether they do."""
    _C.set_downcast_warning(bool(enabled))


def _is_compiled() -> bool:
    return True


def get_stream_from_external(data_ptr: int, device: Device = None) -> NoReturn:
    """Not supported: it would take a pointer for a stream."""
    raise NotImplementedError("streams of spyre are not pointers: there is none to take from elsewhere")


class SpyrePluggableAllocator:
    """Cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("memory of spyre is given out by one allocator, which cannot be replaced")


def change_current_allocator(allocator: Any) -> NoReturn:
    """Not supported."""
    raise NotImplementedError("memory of spyre is given out by one allocator, which cannot be replaced")
