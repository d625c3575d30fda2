"""``python -m torch_spyre.collect_env``: what to paste into a report of a problem."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator

VARIABLES = (
    "AIU_WORLD_SIZE",
    "EAGER_MODE",
    "FLEX_DEVICE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "RANK",
    "SPYRE_DEVICES",
    "SPYRE_FALLBACK",
    "SPYRE_LAUNCH_BLOCKING",
    "SPYRE_LOGS",
    "SPYRE_LOG_FILE",
    "SPYRE_MAX_TILE",
    "SPYRE_MEMORY_LIMIT",
    "SPYRE_NUM_THREADS",
    "SPYRE_POLICY",
    "SPYRE_PROFILE",
    "SPYRE_REGIONS",
    "SPYRE_REGION_SIZE",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_LOGS",
    "TORCH_SPYRE_DEBUG",
    "TORCH_SPYRE_DOWNCAST_WARN",
    "WORLD_SIZE",
)


def collect() -> dict[str, dict[str, str]]:
    """Sections of names and values. What cannot be found out says why, and hides nothing else."""
    import torch

    import torch_spyre

    torch_spyre._autoload()
    return {
        "versions": {
            "torch_spyre": _version(),
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "system": platform.platform(),
        },
        "host": dict(_host()),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ} or {"(none set)": ""},
        **_devices(torch),
    }


def pretty(sections: dict[str, dict[str, str]]) -> str:
    """Formats the sections of :func:`collect` as text."""
    width = max((len(name) for section in sections.values() for name in section), default=0)
    lines = []
    for title, section in sections.items():
        lines += [title, *(f"  {name:<{width}}  {value}".rstrip() for name, value in section.items()), ""]
    return "\n".join(lines)


def main() -> None:
    """Prints it."""
    print(pretty(collect()))


def _version() -> str:
    from .version import __version__

    return __version__


def _host() -> Iterator[tuple[str, str]]:
    yield "cpus", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"
    try:
        with open("/proc/cpuinfo") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        fields = {name.strip(): value.strip() for name, value in lines.items()}
        yield "cpu", fields.get("model name", "unknown")
        known = ("avx2", "f16c", "fma", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile")
        yield "features", " ".join(flag for flag in known if flag in fields.get("flags", "").split())
    except (OSError, ValueError) as error:
        yield "cpu", f"unknown: {error}"


def _devices(torch) -> dict[str, dict[str, str]]:
    try:
        count = torch.spyre.device_count()
        return {f"spyre:{index}": dict(_device(torch, index)) for index in range(count)}
    except Exception as error:  # a report is wanted most where nothing works
        return {"devices": {"error": f"{type(error).__name__}: {error}"}}


def _device(torch, index: int) -> Iterator[tuple[str, str]]:
    properties = torch.spyre.get_device_properties(index)
    yield "name", properties.name
    yield "emulated", str(properties.is_emulated)
    yield "profile", properties.profile
    yield "memory mode", properties.memory_mode
    yield "memory", f"{properties.regions} regions of {properties.region_bytes} bytes"
    yield "memory of a real card", f"{properties.nominal_memory} bytes"
    free, total = torch.spyre.mem_get_info(index)
    yield "usable", f"{free} of {total} bytes free"
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    same = torch.equal(x.to(f"spyre:{index}").cpu(), x)
    yield "copy there and back", "exact" if same else "WRONG"


if __name__ == "__main__":
    main()
