"""The module ``torch.spyre``.

Its names live in the files beside this one, which are read when one of their names is first asked for: every
``import torch`` pays for what happens here. Names that none of them has are the extension's: layouts, formats,
kernels.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

from . import _C
from ._runtime import runtime

_DOC = """The device spyre.

    x = torch.ones(3, device="spyre")

The runtime starts when it is first needed. Streams, events, memory, random numbers and devices have the names
that other devices' modules have.
"""

# Which file each name is in.
_FILES = {
    ".amp": "",
    ".devices": """
        change_current_allocator current_device device device_of exchange_device get_amp_supported_dtype
        get_downcast_warning get_stream_from_external init maybe_exchange_device reset_device set_device
        set_downcast_warning SpyrePluggableAllocator _get_device_index _is_compiled
    """,
    ".distributed": "",
    ".graphs": "SpyreGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
    ".memory": """
        MemPool attach_out_of_memory_observer device_memory_used empty_cache empty_host_cache get_allocator_backend
        get_memory_info get_per_process_memory_fraction host_memory_stats host_memory_stats_as_nested_dict
        max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot
        memory_stats memory_stats_as_nested_dict memory_summary record_memory_history
        reset_accumulated_host_memory_stats reset_accumulated_memory_stats reset_peak_host_memory_stats
        reset_peak_memory_stats set_per_process_memory_fraction snapshot use_mem_pool
    """,
    ".ops.fallbacks": "fallback_stats reset_fallback_stats",
    ".plans": "card_reports plan_stats",
    ".properties": """
        can_device_access_peer clock_rate get_arch_list get_device_capability get_device_name get_device_properties
        get_gencode_flags is_bf16_supported is_tf32_supported memory_usage power_draw temperature utilization
    """,
    ".random": """
        default_generators get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all
        set_rng_state set_rng_state_all _get_generator _get_rng_state_offset _set_rng_state_offset
    """,
    ".tracing": "trace",
    ".streams": """
        Event Stream StreamContext current_stream default_stream set_stream stream synchronize _set_stream_by_id
    """,
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names.split()}
_SUBMODULES = {file.rpartition(".")[2]: file for file in _FILES if file != ".ops.fallbacks"}
_OTHER_NAMES = {"_exchange_device": "exchange_device", "_maybe_exchange_device": "maybe_exchange_device"}
_OF_THE_RUNTIME = "_is_in_bad_fork _lazy_call _lazy_init device_count is_available is_initialized".split()

# Names that are looked for in the extension, and are written in Python.
_IN_THE_EXTENSION = {
    "_SpyreStreamBase": (".streams", "Stream"),
    "_get_default_generator": (".random", "_default_generator"),
    "_spyre_get_allocator_stats": (".memory", "memory_stats"),
    "_spyre_reset_accumulated_stats": (".memory", "reset_accumulated_memory_stats"),
    "_spyre_reset_peak_stats": (".memory", "reset_peak_memory_stats"),
    "current_stream": (".streams", "current_stream"),
    "default_stream": (".streams", "default_stream"),
    "get_stream_from_pool": (".streams", "get_stream_from_pool"),
    "manual_seed": (".random", "manual_seed"),
    "manual_seed_all": (".random", "manual_seed_all"),
    "set_current_stream": (".streams", "set_current_stream"),
    "synchronize": (".streams", "synchronize"),
}

# Inductor asks whether the device brings these.
_PROBED_BY_INDUCTOR = ("Scheduling", "GraphLowering", "Lowering", "Codegen", "Compile")


def make_spyre_module() -> types.ModuleType:
    """Makes the module that ``torch._register_device_module`` is given."""
    module: Any = types.ModuleType("torch.spyre", _DOC)
    module._impl = runtime
    for name in _OF_THE_RUNTIME:
        setattr(module, name, getattr(runtime, name))
    for name in _PROBED_BY_INDUCTOR:
        setattr(module, name, None)
    names = {*vars(module), *_FILE_OF, *_SUBMODULES}
    module.__all__ = sorted(name for name in names if not name.startswith("_"))
    module.__dir__ = lambda: sorted({*vars(module), *names, *_OTHER_NAMES})
    module.__getattr__ = lambda name: _find(module, name)
    setattr(_C, "__getattr__", _find_for_the_extension)  # noqa: B010  a type checker refuses the other way
    return module


def _find(module: types.ModuleType, name: str) -> Any:
    """A name that was not asked for before: it is kept, if it is one of this package's."""
    name_there = _OTHER_NAMES.get(name, name)
    if name_there in _FILE_OF:
        value = getattr(importlib.import_module(_FILE_OF[name_there], __package__), name_there)
    elif name in _SUBMODULES:
        value = importlib.import_module(_SUBMODULES[name], __package__)
    else:
        return _of_the_extension(name)
    setattr(module, name, value)
    return value


def _of_the_extension(name: str) -> Any:
    """Returns a name of the extension. A name that it does not have does not start the runtime."""
    if name.startswith("__") or not hasattr(_C, name):
        raise AttributeError(f"module 'torch.spyre' has no attribute {name!r}")
    if not runtime._is_in_bad_fork():
        runtime._lazy_init()
    return getattr(_C, name)


def _find_for_the_extension(name: str) -> Any:
    if name not in _IN_THE_EXTENSION:
        raise AttributeError(f"module 'torch_spyre._C' has no attribute {name!r}")
    file, name_there = _IN_THE_EXTENSION[name]
    value = getattr(importlib.import_module(file, __package__), name_there)
    setattr(_C, name, value)
    return value
