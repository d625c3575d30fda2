"""Every public name of torch.xpu and torch.accelerator, called on this device; and the rest of ``torch.spyre``.

The table of names in docs/pytorch.md is made by this file: ``BLESS=1`` rewrites it.
"""

from __future__ import annotations

import importlib
import os
import types
import warnings
from pathlib import Path

import pytest
import torch

import torch_spyre

DOCS = Path(__file__).parents[2] / "docs" / "pytorch.md"
OUR_NAME = {"XPUGraph": "SpyreGraph", "XPUPluggableAllocator": "SpyrePluggableAllocator"}


def none(value):
    return value is None


def within(low, high):
    return lambda value: low <= value <= high


def use(manager):
    with manager:
        return torch.spyre.current_device()


# name: how it is called, and what its answer is like.
CALLS = {
    "Event": (lambda f: f(enable_timing=True), lambda e: isinstance(e, torch.Event) and e.device.type == "spyre"),
    "Stream": (lambda f: f(priority=-1), lambda s: 33 <= s.id <= 64),
    "StreamContext": (lambda f: use(f(torch.spyre.Stream())), lambda i: i == 0),
    "XPUGraph": (lambda f: f().pool(), lambda handle: len(handle) == 2),
    "can_device_access_peer": (lambda f: f(0, 0), lambda can: can is False),
    "clock_rate": (lambda f: f(), within(1, 10_000)),
    "current_device": (lambda f: f(), lambda i: i == 0),
    "current_stream": (lambda f: f(), lambda s: s.device() == torch.device("spyre:0")),
    "default_generators": (lambda f: f[0], lambda g: g.device == torch.device("spyre:0")),
    "device": (lambda f: use(f(0)), lambda i: i == 0),
    "device_of": (lambda f: use(f(torch.ones(1, device="spyre"))), lambda i: i == 0),
    "device_count": (lambda f: f(), lambda n: n == 1),
    "device_memory_used": (lambda f: f(), within(0, 1 << 50)),
    "empty_cache": (lambda f: f(), none),
    "get_arch_list": (lambda f: f(), lambda names: names == ["dd2"]),
    "get_device_capability": (lambda f: f(), lambda c: torch.float16 in c["supported_dtypes"] and c["type"] == "dd2"),
    "get_device_name": (lambda f: f(), lambda name: "Spyre" in name),
    "get_device_properties": (lambda f: f(), lambda p: p.nominal_memory == 128 << 30 and p.multi_processor_count == 32),
    "get_gencode_flags": (lambda f: f(), lambda flags: flags == ""),
    "get_per_process_memory_fraction": (lambda f: f(), within(0, 1)),
    "get_rng_state": (lambda f: f(), lambda s: s.dtype == torch.uint8),
    "get_rng_state_all": (lambda f: f(), lambda states: len(states) == 1),
    "graph": (lambda f: use(f(torch.spyre.SpyreGraph())), lambda i: i == 0),
    "graph_pool_handle": (lambda f: f(), lambda handle: len(handle) == 2),
    "init": (lambda f: f(), none),
    "initial_seed": (lambda f: f(), within(0, (1 << 64) - 1)),
    "is_available": (lambda f: f(), lambda is_: is_ is True),
    "is_bf16_supported": (lambda f: f(), lambda is_: is_ is True),
    "is_current_stream_capturing": (lambda f: f(), lambda is_: is_ is False),
    "is_initialized": (lambda f: f(), lambda is_: is_ is True),
    "is_tf32_supported": (lambda f: f(), lambda is_: is_ is False),
    "make_graphed_callables": (lambda f: f(torch.neg, (torch.ones(1, device="spyre"),)), callable),
    "manual_seed": (lambda f: f(1), none),
    "manual_seed_all": (lambda f: f(1), none),
    "max_memory_allocated": (lambda f: f(), within(0, 1 << 50)),
    "max_memory_reserved": (lambda f: f(), within(0, 1 << 50)),
    "mem_get_info": (lambda f: f(), lambda info: 0 < info[0] <= info[1]),
    "memory_allocated": (lambda f: f(), within(0, 1 << 50)),
    "memory_reserved": (lambda f: f(), within(0, 1 << 50)),
    "memory_snapshot": (lambda f: f(), lambda segments: isinstance(segments, list)),
    "memory_stats": (lambda f: f(), lambda stats: "allocated_bytes.all.peak" in stats),
    "memory_stats_as_nested_dict": (lambda f: f(), lambda stats: "all" in stats["reserved_bytes"]),
    "memory_usage": (lambda f: f(), within(0, 100)),
    "MemPool": (lambda f: f(), lambda pool: len(pool.id) == 2),
    "power_draw": (lambda f: f(), within(0, 75_000)),
    "use_mem_pool": (lambda f: use(f(torch.spyre.MemPool())), lambda i: i == 0),
    "reset_accumulated_memory_stats": (lambda f: f(), none),
    "reset_peak_memory_stats": (lambda f: f(), none),
    "seed": (lambda f: f(), none),
    "seed_all": (lambda f: f(), none),
    "set_device": (lambda f: f(0), none),
    "set_per_process_memory_fraction": (lambda f: f(1.0), none),
    "set_rng_state": (lambda f: f(torch.spyre.get_rng_state()), none),
    "set_rng_state_all": (lambda f: f(torch.spyre.get_rng_state_all()), none),
    "set_stream": (lambda f: f(torch.spyre.default_stream()), none),
    "stream": (lambda f: use(f(torch.spyre.Stream())), lambda i: i == 0),
    "streams": (lambda f: f.Stream, lambda class_: class_ is torch.spyre.Stream),
    "synchronize": (lambda f: f(), none),
    "temperature": (lambda f: f(), within(-50, 150)),
    "utilization": (lambda f: f(), within(0, 100)),
}
NOT_SUPPORTED = {
    "XPUPluggableAllocator": lambda f: f("library.so", "alloc", "free"),
    "change_current_allocator": lambda f: f(None),
    "get_stream_from_external": lambda f: f(0),
}


def ours(name):
    return getattr(torch.spyre, OUR_NAME.get(name, name))


@pytest.fixture(scope="module", autouse=True)
def started():
    torch.spyre.init()


def test_every_name_of_xpu_is_accounted_for():
    assert set(torch.xpu.__all__) == set(CALLS) | set(NOT_SUPPORTED)
    assert len(CALLS) >= 57


@pytest.mark.parametrize("name", sorted(CALLS))
def test_names_of_xpu_that_work(name):
    call, is_right = CALLS[name]
    answer = call(ours(name))
    assert is_right(answer), answer


@pytest.mark.parametrize("name", sorted(NOT_SUPPORTED))
def test_names_of_xpu_that_say_why_not(name):
    with pytest.raises(NotImplementedError, match="spyre"):
        NOT_SUPPORTED[name](ours(name))


ACCELERATOR = {
    "Graph": None,
    "current_accelerator": (lambda f: f(), lambda d: d == torch.device("spyre")),
    "current_device_idx": (lambda f: f(), lambda i: i == 0),
    "current_device_index": (lambda f: f(), lambda i: i == 0),
    "get_device_capability": (lambda f: f(), lambda c: {torch.float32, torch.float16, torch.bool} <= c["supported_dtypes"]),
    "current_stream": (lambda f: f(), lambda s: s.device == torch.device("spyre:0")),
    "device_count": (lambda f: f(), lambda n: n == 1),
    "device_index": (lambda f: use(f(0)), lambda i: i == 0),
    "empty_cache": (lambda f: f(), none),
    "empty_host_cache": (lambda f: f(), none),
    "get_memory_info": (lambda f: f(), lambda info: 0 < info[0] <= info[1]),
    "is_available": (lambda f: f(), lambda is_: is_ is True),
    "max_memory_allocated": (lambda f: f(), within(0, 1 << 50)),
    "max_memory_reserved": (lambda f: f(), within(0, 1 << 50)),
    "memory_allocated": (lambda f: f(), within(0, 1 << 50)),
    "memory_reserved": (lambda f: f(), within(0, 1 << 50)),
    "memory_stats": (lambda f: f(), lambda stats: "allocated_bytes.all.peak" in stats),
    "reset_accumulated_memory_stats": (lambda f: f(), none),
    "reset_peak_memory_stats": (lambda f: f(), none),
    "set_device_idx": (lambda f: f(0), none),
    "set_device_index": (lambda f: f(0), none),
    "set_stream": (lambda f: f(torch.spyre.default_stream()), none),
    "synchronize": (lambda f: f(), none),
}


def test_every_name_of_the_accelerator_is_accounted_for():
    assert set(torch.accelerator.__all__) == set(ACCELERATOR)


@pytest.mark.parametrize("name", sorted(set(ACCELERATOR) - {"Graph"}))
def test_names_of_the_accelerator(name):
    call, is_right = ACCELERATOR[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        answer = call(getattr(torch.accelerator, name))
    assert is_right(answer), answer


def test_a_graph_of_the_accelerator_is_refused():
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.accelerator.Graph()


@pytest.mark.parametrize(
    "name",
    """
    is_available is_initialized device_count current_device set_device manual_seed manual_seed_all initial_seed
    get_rng_state set_rng_state Stream stream current_stream default_stream synchronize memory get_amp_supported_dtype
    _is_compiled _is_in_bad_fork _lazy_init _lazy_call _impl get_downcast_warning set_downcast_warning Scheduling
    GraphLowering Lowering Codegen Compile Event get_device_properties get_device_name mem_get_info empty_cache
    exchange_device maybe_exchange_device _exchange_device _maybe_exchange_device _get_device_index reset_device
    fallback_stats memory_summary host_memory_stats device device_of amp
    """.split(),
)
def test_names_that_others_use(name):
    assert hasattr(torch.spyre, name) and name in dir(torch.spyre)


def test_the_table_of_files_is_right():
    from torch_spyre import _module

    for file in (".devices", ".graphs", ".memory", ".random", ".streams"):
        listed = set(_module._FILES[file].split())
        module = importlib.import_module(file, "torch_spyre")
        assert {name for name in listed if not name.startswith("_")} == set(module.__all__) - {"get_stream_from_pool"}
        assert all(hasattr(module, name) for name in listed)


def test_it_is_a_real_module():
    import torch.spyre as module
    from torch.spyre import current_device

    assert module is torch.spyre and isinstance(module, types.ModuleType)
    assert current_device is torch.spyre.current_device
    assert torch.get_device_module("spyre") is module
    assert not hasattr(module, "__file__") and not hasattr(module, "_C")
    assert torch.spyre._is_compiled() is True
    assert (module.Scheduling, module.Compile) == (None, None)
    assert all(hasattr(module, name) for name in module.__all__)


def test_unknown_names_are_the_extensions():
    from torch.spyre import DataFormats, ElementArrangement, SpyreTensorLayout, get_device_dtype, get_elem_in_stick

    assert SpyreTensorLayout is torch_spyre._C.SpyreTensorLayout
    assert isinstance(get_device_dtype(torch.float32), DataFormats)
    assert get_elem_in_stick(torch.float16) == 64
    assert ElementArrangement.STANDARD.value == 0
    with pytest.raises(AttributeError, match="module 'torch.spyre' has no attribute 'nonsense'"):
        torch.spyre.nonsense  # noqa: B018


def test_the_implementation_has_the_state():
    assert torch.spyre._impl._lazy_init() is None
    assert torch.spyre._lazy_init.__self__ is torch.spyre._impl
    called = []
    torch.spyre._lazy_call(lambda: called.append(1))
    assert called == [1]


def test_calls_that_wait_for_the_start(python):
    code = """
        import torch
        called = []
        torch.spyre._lazy_call(lambda: called.append(torch.spyre.is_initialized()))
        assert called == []
        torch.ones(1, device="spyre")
        print(called)
        torch.spyre._lazy_call(lambda: called.append(2))
        print(called)
    """
    assert python(code).stdout.split("\n")[:2] == ["[True]", "[True, 2]"]


@pytest.mark.parametrize("wrong", [1, -1, 8])
def test_devices_that_are_not_there_cannot_be_selected(wrong):
    with pytest.raises(RuntimeError, match=rf"Device index {wrong} out of range \[0, 1\)"):
        torch.spyre.set_device(wrong)
    assert torch.spyre.current_device() == 0


def test_other_devices_cannot_be_selected():
    with pytest.raises(ValueError, match="Expected a spyre device, but got: cpu"):
        torch.spyre.set_device("cpu")


def test_devices_are_selected_in_this_thread(python):
    code = """
        import threading, torch
        torch.spyre.set_device(2)
        seen = []
        with torch.spyre.device(1):
            seen.append(torch.spyre.current_device())
            with torch.spyre.device(-1):
                seen.append(torch.spyre.current_device())
            with torch.spyre.device(None), torch.spyre.device_of(torch.ones(1)):
                seen.append(torch.spyre.current_device())
            with torch.spyre.device_of(torch.ones(1, device="spyre:3")):
                seen.append(torch.ones(1, device="spyre").device.index)
            with torch.accelerator.device_index(0):
                seen.append(torch.spyre.current_device())
        seen.append(torch.spyre.current_device())
        seen.append(torch.spyre.exchange_device(3))
        seen.append(torch.spyre.maybe_exchange_device(0))
        print(*seen, torch.spyre.can_device_access_peer(0, 1))
        s = torch.spyre.Stream("spyre:2")
        with s:
            print(torch.spyre.current_device(), torch.spyre.current_stream() == s)
        print(torch.spyre.current_device(), torch.spyre.current_stream("spyre:2").id)
        with torch.spyre.StreamContext(s):
            print(torch.spyre.current_device(), torch.spyre.current_stream() == s)
        print(torch.spyre.current_device(), torch.spyre.current_stream(2).id)
        torch.spyre.synchronize(3)
    """
    lines = python(code, AIU_WORLD_SIZE="4").stdout.splitlines()
    assert lines == ["1 1 1 3 0 2 2 3 True", "2 True", "0 0", "2 True", "0 0"]


def test_properties():
    properties = torch.spyre.get_device_properties("spyre:0")

    assert (properties.type, properties.index, properties.multi_processor_count) == ("dd2", 0, 32)
    assert properties.is_emulated and properties.nominal_memory == 128 << 30
    assert (properties.memory_mode, properties.profile) == (
        os.environ.get("FLEX_DEVICE", "VF"),
        os.environ.get("SPYRE_PROFILE", "open"),
    )
    with pytest.raises(AttributeError):
        properties.name = "another"
    with pytest.raises(RuntimeError, match="out of range"):
        torch.spyre.get_device_properties(5)


def test_a_reset_takes_the_tensors(python):
    code = """
        import torch
        x = torch.ones(3, device="spyre")
        torch.spyre.reset_device()
        try:
            x.cpu()
        except RuntimeError as error:
            print(type(error).__name__)
        del x
        print(torch.ones(3, device="spyre").sum().item(), torch.spyre.memory_allocated() >= 0)
    """
    assert python(code).stdout.split() == ["RuntimeError", "3.0", "True"]


def test_packages_and_constants():
    from torch_spyre import constants, memory, profiler, streams, version

    assert (constants.DEVICE_NAME, constants.DISTRIBUTED_BACKEND_NAME) == ("spyre", "spyreccl")
    assert version.__version__ == torch_spyre.__version__
    assert profiler.is_available() is True
    assert torch.spyre.memory is memory and torch.spyre.streams is streams
    assert set(torch.accelerator.memory.__all__) <= set(memory.__all__)


def test_names_of_the_extension_that_others_use():
    from torch_spyre import _C

    stream = _C.get_stream_from_pool(0, priority=1)
    assert isinstance(stream, _C._SpyreStreamBase) and stream.id > 32
    assert _C.set_current_stream(stream) == _C.default_stream(0)
    assert _C.current_stream(0) == stream
    assert _C.set_current_stream(_C.default_stream(0)) == stream
    _C.synchronize()
    assert _C._get_default_generator(0) is torch.spyre.default_generators[0]
    x = torch.ones(2, device="spyre")
    stats = _C._spyre_get_allocator_stats(0)
    assert stats["allocated_bytes.all.current"] == torch.spyre.memory_allocated()
    assert stats["allocation.all.current"] >= 1
    _C._spyre_reset_peak_stats(0)
    _C._spyre_reset_accumulated_stats(0)
    del x


def test_profiles_show_operations():
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profile:
        torch.ones(3, device="spyre").mul_(2).add(1)
    assert {"aten::mul_", "aten::add"} <= {event.key for event in profile.key_averages()}


def test_the_table_in_the_docs_is_this_one():
    lines = ["| torch.xpu | torch.spyre |", "|---|---|"]
    for name in sorted(torch.xpu.__all__, key=str.lower):
        mapped = OUR_NAME.get(name, name)
        lines.append(f"| `{name}` | {'raises NotImplementedError' if name in NOT_SUPPORTED else f'`{mapped}`'} |")
    table = "\n".join(lines)
    start, end = "<!-- names -->\n", "\n<!-- end of names -->"
    text = DOCS.read_text()
    if os.environ.get("BLESS"):
        before, _, rest = text.partition(start)
        text = before + start + table + end + rest.partition(end)[2]
        DOCS.write_text(text)
    assert start + table + end in text, "BLESS=1 rewrites the table"
