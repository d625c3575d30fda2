"""Numbers that are told in more than one place."""

from __future__ import annotations

import torch


def test_total_memory_is_what_can_be_used():
    properties = torch.spyre.get_device_properties()
    assert properties.total_memory == torch.spyre.mem_get_info()[1] == torch.accelerator.get_memory_info(0)[1]
    assert properties.nominal_memory == properties.regions * properties.region_bytes >= properties.total_memory
    assert torch.spyre.get_device_capability()["total_memory"] == properties.total_memory


def test_total_memory_follows_the_limit(python):
    code = """
        import torch
        for index in range(2):
            p = torch.spyre.get_device_properties(index)
            print(p.total_memory, torch.spyre.mem_get_info(index)[1], p.nominal_memory >> 30)
    """
    lines = python(code, SPYRE_MEMORY_LIMIT="3G", AIU_WORLD_SIZE="2").stdout.splitlines()
    assert lines == [f"{3 << 30} {3 << 30} 96"] * 2
