"""Properties of a device: its name, memory and cores, and what it can do."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from . import _C
from ._devices import Device, existing_index
from ._runtime import runtime

CLOCK_MHZ = 1500
POWER_LIMIT_MILLIWATTS = 75_000
IDLE_CELSIUS = 25


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """One device. Numbers of cores are those of a real card, those of memory of this one."""

    name: str
    index: int
    total_memory: int
    """Bytes that this process may use, as ``mem_get_info`` tells them."""
    nominal_memory: int
    """Bytes of the card that it stands for: 128 GB, so that eight have 1 TB."""
    regions: int
    """Number of regions that memory is carved from: ``SPYRE_REGIONS``, 8."""
    region_bytes: int
    """Largest size of each: ``SPYRE_REGION_SIZE``, 12 GB."""
    memory_mode: str
    """``"PF"`` or ``"VF"``: how memory is addressed."""
    profile: str
    """``"open"``: all dtypes, exact. ``"card"``: the numbers of a real card."""
    engines: int
    """Number of blocks that the card carries out at a time."""
    type: str = "dd2"
    vendor: str = "IBM"
    multi_processor_count: int = 32
    is_emulated: bool = True
    """True for a software card."""

    @property
    def gcnArchName(self) -> str:  # noqa: N802  some tools read the architecture by this name
        return self.type


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Returns the properties of ``device``."""
    runtime._lazy_init()
    index = existing_index(device)
    return DeviceProperties(index=index, **_C.device_properties(index))


def get_device_name(device: Device = None) -> str:
    """Returns the name of ``device``."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict[str, Any]:
    """The properties of ``device`` as a dictionary, and the dtypes that it keeps (``supported_dtypes``)."""
    properties = dataclasses.asdict(get_device_properties(device))
    return {**properties, **torch._C._accelerator_getDeviceCapability(properties["index"])}


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Returns True if the devices differ: tensors then go from one to the other without PyTorch's memory."""
    runtime._lazy_init()
    return existing_index(device) != existing_index(peer_device)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Returns True if there is bfloat16: exact on ``open``, the card's own 16-bit float on ``card``."""
    return runtime.is_available() and (including_emulation or get_device_properties().profile == "open")


def is_tf32_supported() -> bool:
    """Returns False: TF32 is a format of other vendors."""
    return False


def get_arch_list() -> list[str]:
    """The architectures that this package has programs for."""
    return ["dd2"]


def get_gencode_flags() -> str:
    """The flags that programs are compiled with: none."""
    return ""


def clock_rate(device: Device = None) -> int:
    """The clock of a real card in MHz. A software card has none: the number is emulated."""
    existing_index(device)
    return CLOCK_MHZ


def power_draw(device: Device = None) -> int:
    """Milliwatts: emulated, a real card's limit while there is work, else 0."""
    return POWER_LIMIT_MILLIWATTS if utilization(device) else 0


def temperature(device: Device = None) -> int:
    """Degrees Celsius: emulated, a constant."""
    existing_index(device)
    return IDLE_CELSIUS


def utilization(device: Device = None) -> int:
    """100 while any stream of ``device`` has work, else 0."""
    index = existing_index(device)
    return 100 if runtime.is_initialized() and _C.is_busy(index) else 0


def memory_usage(device: Device = None) -> int:
    """The percentage of memory that is in use."""
    runtime._lazy_init()
    free, total = torch.accelerator.get_memory_info(existing_index(device))
    return round(100 * (total - free) / total) if total else 0
