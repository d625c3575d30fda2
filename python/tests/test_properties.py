"""Numbers that are reported in more than one place."""

from __future__ import annotations

import torch


def test_total_memory_is_what_can_be_used():
    properties = torch.spyre.get_device_properties()
    assert properties.total_memory == torch.spyre.mem_get_info()[1] == torch.accelerator.get_memory_info(0)[1]
    assert properties.total_memory <= properties.regions * properties.region_bytes
    assert torch.spyre.get_device_capability()["total_memory"] == properties.total_memory


def test_total_memory_follows_the_limit(python):
    code = """
        import torch
        for index in range(2):
            p = torch.spyre.get_device_properties(index)
            print(p.total_memory, torch.spyre.mem_get_info(index)[1], p.nominal_memory >> 30)
    """
    lines = python(code, SPYRE_MEMORY_LIMIT="3G", AIU_WORLD_SIZE="2").stdout.splitlines()
    assert lines == [f"{3 << 30} {3 << 30} 128"] * 2


def test_eight_cards_have_a_terabyte_by_name(python):
    code = """
        import torch
        cards = [torch.spyre.get_device_properties(index) for index in range(torch.spyre.device_count())]
        print(sum(card.nominal_memory for card in cards) == 1 << 40, {(c.regions, c.region_bytes >> 30) for c in cards})
    """
    assert python(code, AIU_WORLD_SIZE="8").stdout.strip() == "True {(8, 12)}"


def test_regions_by_variables(python):
    code = """
        import torch
        p = torch.spyre.get_device_properties()
        print(p.regions, p.region_bytes >> 20, p.total_memory >> 20)
        kept = [torch.ones(12 << 18, device="spyre") for _ in range(2)]
        try:
            torch.empty(12 << 18, device="spyre")
        except torch.OutOfMemoryError as error:
            print(all((x == 1).all().item() for x in kept))
    """
    assert python(code, SPYRE_REGIONS="2", SPYRE_REGION_SIZE="16M").stdout.splitlines() == ["2 16 32", "True"]
