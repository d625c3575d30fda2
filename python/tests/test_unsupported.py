"""Kinds of tensors that the device does not have: errors that name them and a remedy."""

import pytest
import torch

from conftest import needs_spyre

pytestmark = needs_spyre

QUANTISED = {
    "empty": lambda: torch.empty(4, dtype=torch.qint8, device="spyre"),
    "to": lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8).to("spyre"),
    "quantize": lambda: torch.quantize_per_tensor(torch.ones(4).to("spyre"), 0.1, 0, torch.quint8),
    "quint4x2": lambda: torch.empty(4, dtype=torch.quint4x2, device="spyre"),
}


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_tensors_are_refused_with_a_remedy(name):
    with pytest.raises(NotImplementedError, match=r"quantised tensor.*dequantize\(\)"):
        QUANTISED[name]()


FIRST = {
    "empty": "torch.empty(4, dtype=torch.qint8, device='spyre')",
    "to": "torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8).to('spyre')",
}


@pytest.mark.parametrize("name", FIRST)
def test_quantised_tensors_are_refused_also_as_the_first_ones(python, name):
    code = f"""
        import torch
        try:
            {FIRST[name]}
        except NotImplementedError as error:
            print(error)
    """
    assert "dequantize()" in python(code).stdout


@pytest.mark.parametrize("dtype", [torch.int4, torch.uint1, torch.bits8, torch.float4_e2m1fn_x2])
def test_numbers_become_no_bits_of_other_meaning(dtype):
    assert torch.empty(4, dtype=dtype, device="spyre").dtype == dtype
    with pytest.raises(NotImplementedError, match="not implemented for.*uint8"):
        torch.ones(4, device="spyre").to(dtype)


def test_bits_go_to_the_device_and_back():
    bits = torch.arange(4, dtype=torch.uint8).view(torch.int4)
    assert torch.equal(bits.to("spyre").cpu().view(torch.uint8), torch.arange(4, dtype=torch.uint8))


def test_an_op_that_the_cpu_does_not_have_either_says_so():
    x = torch.ones(4, 32, dtype=torch.bfloat16, device="spyre")
    weight, scales = torch.zeros(4, 16, dtype=torch.int32, device="spyre"), torch.ones(1, 4, 2, device="spyre")
    with pytest.raises(NotImplementedError, match="_weight_int4pack_mm.*spyre.*none for the CPU"):
        torch._weight_int4pack_mm(x, weight, 32, scales.bfloat16())


def test_mkldnn_is_refused():
    with pytest.raises(NotImplementedError, match="mkldnn layout: spyre"):
        torch.ones(4, device="spyre").to_mkldnn()
