"""The device as Dynamo and Inductor ask about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch._dynamo.device_interface import DeviceInterface

__all__ = ["SpyreInterface"]


class Properties(NamedTuple):
    """Numbers that Inductor asks for when it splits reductions."""

    multi_processor_count: int
    name: str = "spyre"


class SpyreInterface(DeviceInterface):
    """Functions of `torch.spyre`, under the names of Dynamo."""

    device = torch.spyre.device
    Event = torch.spyre.Event
    Stream = torch.spyre.Stream

    class Worker:
        set_device = staticmethod(torch.spyre.set_device)
        current_device = staticmethod(torch.spyre.current_device)

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> Properties:
            return Properties(multi_processor_count=torch.spyre.get_device_properties(device).multi_processor_count)

    current_device = staticmethod(torch.spyre.current_device)
    set_device = staticmethod(torch.spyre.set_device)
    device_count = staticmethod(torch.spyre.device_count)
    is_available = staticmethod(torch.spyre.is_available)
    stream = staticmethod(torch.spyre.stream)
    current_stream = staticmethod(torch.spyre.current_stream)
    set_stream = staticmethod(torch.spyre.set_stream)
    synchronize = staticmethod(torch.spyre.synchronize)
    memory_allocated = staticmethod(torch.spyre.memory_allocated)
    exchange_device = staticmethod(torch.spyre.exchange_device)
    maybe_exchange_device = staticmethod(torch.spyre.maybe_exchange_device)
    _set_stream_by_id = staticmethod(torch.spyre._set_stream_by_id)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return torch.spyre.current_stream(device_idx).stream_id

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> Any:
        return torch.spyre.get_device_properties(device).name

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True
