"""torch.compile: graphs on the device are lowered, written and compiled by :mod:`torch_spyre._inductor`."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch

from .._inductor.errors import Unsupported

__all__ = ["change_codegen", "change_compile", "change_lowering"]

_SETTINGS = {
    "unroll_reductions_threshold": 1,  # a short reduction is one, too
    "layout_optimization": False,  # convolutions take images as they lie
    "benchmark_harness": False,
    "combo_kernels": False,
    "allow_buffer_reuse": False,  # memory is freed, not handed on: another shape in it would have the old one's sticks
}
"""Settings of Inductor for graphs on the device."""


def change_codegen(module: ModuleType) -> None:
    """Registers scheduling and wrapper, when Inductor looks for backends."""
    known = module.init_backend_registration

    @functools.wraps(known)
    def with_ours() -> None:
        if module.get_scheduling_for_device("spyre") is None:
            _register(module)
        known()

    module.init_backend_registration = with_ours


def _register(common: ModuleType) -> None:
    from .._inductor import config
    from .._inductor.cache_key import CacheKey
    from .._inductor.scheduling import SpyreScheduling
    from .._inductor.wrapper import SpyreOpOverrides, SpyreWrapper

    common.register_backend_for_device(
        "spyre", SpyreScheduling, SpyreWrapper, device_custom_pass=CacheKey(), device_custom_config=config
    )
    common.register_device_op_overrides("spyre", SpyreOpOverrides())


def change_lowering(module: ModuleType) -> None:
    """Lowers matrix products in the device's own way, and gives results of two devices to this one."""
    from .._inductor import lowerings

    is_gpu, is_two_step = module.is_gpu, module.use_two_step_variance
    module.is_gpu = lambda device: device == "spyre" or is_gpu(device)
    module.use_two_step_variance = lambda x, *others, **named: _is_nothing(x) or is_two_step(x, *others, **named)
    lowerings.install()


def _is_nothing(x: Any) -> bool:
    """Returns true if a tensor of the device has no elements: Welford's mean of none is 0, where eager's is NaN."""
    return x.get_device().type == "spyre" and 0 in x.get_size()


def change_compile(module: ModuleType) -> None:
    """Compiles graphs on the device under settings of their own, and refuses to make packages of them."""
    compile_graph, compile_package = module.fx_codegen_and_compile, module.compile_fx_aot

    @functools.wraps(compile_graph)
    def compiled(gm: Any, *args: Any, **named: Any) -> Any:
        if not _is_on_device(gm):
            return compile_graph(gm, *args, **named)
        from ..graph_reports.recorder import recorded

        with module.config.patch(_SETTINGS):
            return recorded(lambda: compile_graph(gm, *args, **named), is_backward=bool(named.get("is_backward")))

    @functools.wraps(compile_package)
    def packaged(gm: Any, *args: Any, **named: Any) -> Any:
        if _is_on_device(gm):
            raise Unsupported(
                "AOTInductor, which makes packages of C++. Keep the program with torch.export.save, compile what "
                "torch.export.load gives, and keep compiled graphs with torch.compiler.save_cache_artifacts"
            )
        return compile_package(gm, *args, **named)

    module.fx_codegen_and_compile, module.compile_fx_aot = compiled, packaged


def _is_on_device(gm: Any) -> bool:
    values = (node.meta.get("val") for node in gm.graph.nodes)
    return any(isinstance(value, torch.Tensor) and value.device.type == "spyre" for value in values)
