"""Nested tensors: rows of one buffer (torch.strided) and jagged ones, compared with the CPU."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn import functional as F

PARTS = [torch.randn(2, 4, generator=torch.Generator().manual_seed(length)) for length in range(3)]
PARTS = [torch.cat([part] * (at + 1)) for at, part in enumerate(PARTS)]
LAYOUTS = {"strided": torch.strided, "jagged": torch.jagged}


def nested(device, layout=torch.strided, **options):
    return torch.nested.nested_tensor(PARTS, device=device, layout=layout, **options)


def parts_of(value):
    """All plain tensors of a result, on the CPU."""
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in parts_of(item)]
    if value.is_nested:
        return parts_of(value.unbind())
    return [value.detach().cpu()]


def assert_as_on_cpu(compute):
    expected, given = compute("cpu"), compute("spyre")
    for right, part in zip(parts_of(expected), parts_of(given), strict=True):
        torch.testing.assert_close(part, right, atol=1e-4, rtol=1e-4)
    return given


def made(module, device):
    torch.manual_seed(0)
    return module().to(device)


ANY_LAYOUT = {
    "to_padded_tensor": lambda x: torch.nested.to_padded_tensor(x, -1.0),
    "unbind": lambda x: x.unbind(),
    "relu": torch.relu,
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "add": lambda x: x + x,
    "mul": lambda x: x * 2,
    "sub": lambda x: x - x,
    "softmax": lambda x: torch.softmax(x, -1),
    "clone": torch.clone,
    "chunk": lambda x: x.chunk(2, -1),
    "cpu": lambda x: x.cpu(),
    "half": lambda x: x.to(torch.float16),
    "linear": lambda x: made(lambda: nn.Linear(4, 6), x.device)(x),
    "layer_norm": lambda x: made(lambda: nn.LayerNorm(4), x.device)(x),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "select": lambda x: x[1],
    "transpose": lambda x: x.transpose(1, 2).transpose(1, 2),
}
STRIDED = {
    "to_padded_tensor_size": lambda x: x.to_padded_tensor(0.0, (3, 7, 6)),
    "in_place": lambda x: x.mul_(2).add_(x),
    "zero": lambda x: x.zero_(),
    "matmul": lambda x: x @ x.transpose(1, 2),
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "cat": lambda x: torch.cat([x, x]),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "eq": lambda x: x == 0,
    "narrow": lambda x: x.narrow(0, 0, 2),
    "view": lambda x: x.view(3, -1, 2, 2),
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "copy": lambda x: x.clone().zero_().copy_(x),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.reshape(3, -1, 2, 2)] * 3),
}
JAGGED = {
    "sum_ragged": lambda x: x.sum(1),
    "mean_ragged": lambda x: x.mean(1),
    "softmax_ragged": lambda x: x.softmax(1),
    "product": lambda x: x @ torch.ones(3, 4, 2).to(x.device),
    "cat": lambda x: torch.cat([x, x], -1),
    "deepcopy": copy.deepcopy,
    "values": lambda x: x.values(),
}
CASES = (
    [(name, layout, compute) for layout in LAYOUTS for name, compute in ANY_LAYOUT.items()]
    + [(name, "strided", compute) for name, compute in STRIDED.items()]
    + [(name, "jagged", compute) for name, compute in JAGGED.items()]
)


@pytest.mark.parametrize(("name", "layout", "compute"), CASES, ids=[f"{layout}-{name}" for name, layout, _ in CASES])
def test_an_op_gives_what_the_cpu_gives(name, layout, compute):
    assert_as_on_cpu(lambda device: compute(nested(device, LAYOUTS[layout])))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_goes_to_the_device_and_back(layout):
    there = nested("cpu", LAYOUTS[layout]).to("spyre")
    assert there.device.type == "spyre"
    assert "spyre" in repr(there)
    assert "<" not in repr(there) or layout == "jagged"
    assert_as_on_cpu(lambda device: nested("cpu", LAYOUTS[layout]).to(device))


GRADIENTS = {
    "relu": torch.relu,
    "linear": ANY_LAYOUT["linear"],
    "layer_norm": ANY_LAYOUT["layer_norm"],
    "softmax": ANY_LAYOUT["softmax"],
    "matmul": STRIDED["matmul"],
    "sum": STRIDED["sum"],
    "gelu": F.gelu,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_strided_ones_are_the_cpus(name):
    def gradient(device):
        x = nested(device, requires_grad=True)
        GRADIENTS[name](x).to_padded_tensor(0.0).square().sum().backward()
        return x.grad

    assert_as_on_cpu(gradient)


@pytest.mark.parametrize("name", ["relu", "linear", "layer_norm", "softmax"])
def test_gradients_of_jagged_ones_are_the_cpus(name):
    def gradient(device):
        x = nested(device, torch.jagged, requires_grad=True)
        GRADIENTS[name](x).values().square().sum().backward()
        return x.grad

    assert_as_on_cpu(gradient)


def test_jagged_attention_and_its_gradient_are_the_cpus():
    def attend(device):
        parts = [part.view(-1, 2, 2) for part in PARTS]
        x = torch.nested.nested_tensor(parts, device=device, layout=torch.jagged, requires_grad=True)
        heads = x.transpose(1, 2)
        result = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)
        result.values().sum().backward()
        return [result, x.grad]

    assert_as_on_cpu(attend)


def test_one_is_made_from_values_and_offsets():
    values, offsets = torch.arange(20.0).view(5, 4), torch.tensor([0, 2, 5])
    assert_as_on_cpu(lambda device: torch.nested.nested_tensor_from_jagged(values.to(device), offsets.to(device)))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_with_a_padding_mask_gives_what_the_cpu_gives(activation):
    def encode(device):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation=activation)
        encoder = nn.TransformerEncoder(layer, 2).eval().to(device)
        mask = torch.arange(7)[None] >= torch.tensor([7, 5, 3])[:, None]
        source = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            return encoder(source.to(device), src_key_padding_mask=mask.to(device))

    torch.spyre.reset_fallback_stats()
    assert_as_on_cpu(encode)
    assert torch.spyre.fallback_stats() == {}


def test_multi_head_attention_takes_nested_tensors():
    def attend(device):
        attention = made(lambda: nn.MultiheadAttention(4, 2, batch_first=True), device).eval()
        x = nested(device)
        with torch.no_grad():
            return attention(x, x, x, need_weights=False)[0]

    assert_as_on_cpu(attend)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_is_saved_and_loaded(layout):
    def reload(device):
        file = io.BytesIO()
        torch.save(nested(device, LAYOUTS[layout]), file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    assert assert_as_on_cpu(reload).device.type == "spyre"


def test_an_op_that_no_device_has_names_a_remedy():
    with pytest.raises(NotImplementedError, match=r"aten::exp.*nested tensors.*torch\.jagged"):
        torch.exp(nested("spyre"))
