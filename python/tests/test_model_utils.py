"""Models on the device: which layout each parameter gets, and that nothing else changes."""

from __future__ import annotations

import copy
import os
import re

import pytest
import torch
from torch import nn

from torch_spyre import model_utils
from torch_spyre._C import SpyreTensorLayout
from torch_spyre.layouts import set_spyre_tensor_layout
from torch_spyre.model_utils import load_model_to_spyre, patch_module_to_for_spyre

CARD = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Model(nn.Module):
    """Some of everything: linear layers, one weight in two places, buffers of several dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 64)
        self.up = nn.Linear(64, 128)
        self.norm = nn.LayerNorm(128)
        self.down = nn.Linear(128, 64, bias=False)
        self.head = nn.Linear(64, 50, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.arange(3, dtype=torch.int32))
        self.register_buffer("nothing", None)
        self.register_buffer("mask", torch.tensor([True, False]))

    def forward(self, tokens):
        hidden = self.embed(tokens)
        hidden = hidden + self.down(torch.relu(self.norm(self.up(hidden))))
        return self.head(hidden)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


def swapped(size, dtype=torch.float32):
    return SpyreTensorLayout(size, [size[1], 1], dtype, [1, 0])


def rounded(tensor):
    """Values that the device keeps of a tensor."""
    return tensor.to("spyre").cpu()


LOADS = {
    "load_model_to_spyre": load_model_to_spyre,
    "to": lambda model: model.to("spyre"),
    "to a device": lambda model: model.to(torch.device("spyre", 0)),
    "spyre": lambda model: model.spyre(),
    "spyre of an index": lambda model: model.spyre(0),
}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_linear_weights_run_along_their_outputs(model, load):
    values = {name: value.clone() for name, value in model.state_dict().items()}

    loaded = load(model)

    assert loaded is model
    assert model.up.weight.device_tensor_layout() == swapped([128, 64])
    assert model.down.weight.device_tensor_layout() == swapped([64, 128])
    assert model.up.weight.get_stick_dims() == [0]
    assert model.up.bias.device_tensor_layout() == SpyreTensorLayout([128], torch.float32)
    assert model.norm.weight.device_tensor_layout() == SpyreTensorLayout([128], torch.float32)
    assert isinstance(model.up.weight, nn.Parameter) and model.up.weight.requires_grad
    assert model.up.weight.shape == (128, 64) and model.up.weight.is_leaf
    assert model.steps.dtype == torch.int32 and model.steps.device.type == "spyre" and model.nothing is None
    for name, value in model.state_dict().items():
        assert value.device.type == "spyre" and torch.equal(value.cpu(), rounded(values[name])), name


def test_published_sizes():
    for size, sticks in (((4096, 1024), 16), ((64, 128), 2)):
        layer = nn.Linear(*size, bias=False, dtype=torch.float16)
        load_model_to_spyre(layer)
        assert layer.weight.device_tensor_layout().device_size[0] == sticks


def test_a_model_computes_the_same(model):
    tokens = torch.randint(0, 50, (2, 7))
    expected = model(tokens)
    load_model_to_spyre(model)
    result = model(tokens.to("spyre"))
    torch.testing.assert_close(result.cpu(), expected)


def test_one_weight_in_two_places_stays_one(model):
    load_model_to_spyre(model)
    assert model.head.weight is model.embed.weight
    assert len(list(model.parameters())) == len(list(Model().parameters()))


def test_what_is_there_already_stays(model):
    load_model_to_spyre(model)
    before = {name: value.data_ptr() for name, value in model.state_dict().items()}
    load_model_to_spyre(model)
    model.to("spyre")
    assert {name: value.data_ptr() for name, value in model.state_dict().items()} == before


@pytest.mark.parametrize(
    ("from_dtype", "to_dtype"),
    [
        (torch.float32, torch.float16),
        (torch.float16, torch.bfloat16),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float16),
    ],
)
def test_a_dtype_is_honoured(model, from_dtype, to_dtype):
    model.to(from_dtype)
    weight = model.up.weight.detach().clone()

    load_model_to_spyre(model, dtype=to_dtype)

    assert model.up.weight.dtype == model.norm.bias.dtype == to_dtype
    assert model.up.weight.device_tensor_layout() == swapped([128, 64], to_dtype)
    assert (model.steps.dtype, model.mask.dtype) == (torch.int32, torch.bool)
    assert torch.equal(model.up.weight.cpu(), rounded(weight.to(to_dtype)))


def test_another_dtype_on_the_device_keeps_the_sticks(model):
    load_model_to_spyre(model)
    load_model_to_spyre(model, dtype=torch.float16)
    assert model.up.weight.device_tensor_layout() == swapped([128, 64], torch.float16)
    assert model.head.weight is model.embed.weight


def test_dtypes_that_the_device_does_not_keep_are_refused(model):
    for dtype in (torch.complex64, torch.int32, *([torch.float64] if CARD else [])):
        with pytest.raises(ValueError, match=f"does not keep models as {dtype}"):
            load_model_to_spyre(model, dtype=dtype)
    assert model.up.weight.device.type == "cpu"


def test_other_devices_see_no_change(model):
    plain = copy.deepcopy(model)
    assert model.to(torch.float64).up.weight.dtype == torch.float64
    assert model.to("meta").up.weight.device.type == "meta"
    plain.to(torch.float16).to("cpu", torch.float32)
    assert plain.up.weight.device_tensor_layout() is None
    with pytest.raises(TypeError, match="floating point or complex"):
        plain.to(torch.int32)
    with pytest.raises(TypeError, match="floating point or complex"):
        plain.to("spyre", torch.int32)
    with pytest.raises(RuntimeError):
        plain.to("no such device")


def test_home_again(model):
    values = {name: value.clone() for name, value in model.state_dict().items()}
    model.to("spyre").to("cpu")
    assert all(torch.equal(value, rounded(values[name])) for name, value in model.state_dict().items())


def test_to_takes_what_modules_take(model):
    model.to(device="spyre", dtype=torch.float16, non_blocking=True)
    torch.spyre.synchronize()
    assert (model.up.weight.dtype, model.up.weight.device.type) == (torch.float16, "spyre")
    other = Model().to(torch.ones(1, dtype=torch.float16, device="spyre"))
    assert other.up.weight.device_tensor_layout() == swapped([128, 64], torch.float16)


def test_the_patch_is_made_once():
    patched = nn.Module.to
    assert patched._spyre_patched
    patch_module_to_for_spyre()
    assert nn.Module.to is patched
    assert patched.__name__ == "to" and "Move and/or cast" in patched.__doc__


def test_gradients_come_along(model):
    model(torch.randint(0, 50, (2, 7))).sum().backward()
    expected = model.up.weight.grad.clone()
    load_model_to_spyre(model)
    assert model.up.weight.grad.device.type == "spyre"
    assert torch.equal(model.up.weight.grad.cpu(), rounded(expected))


def test_training_goes_on_after_loading(model):
    load_model_to_spyre(model.train())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, targets = (torch.randint(0, 50, (2, 7)).to("spyre") for _ in range(2))
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    assert model.up.weight.device_tensor_layout() == swapped([128, 64])


def test_modules_with_a_way_of_their_own():
    lstm = nn.LSTM(8, 16, batch_first=True).to("spyre")
    assert all(weight.device.type == "spyre" for weight in lstm._flat_weights)
    assert lstm._flat_weights[0] is lstm.weight_ih_l0


def test_only_matrices_have_their_dimensions_exchanged():
    with pytest.raises(AssertionError):
        model_utils._dma_to_spyre_dim_order_swapped(torch.ones(3, 4, 5))
    weight = torch.randn(6, 70).half()
    moved = model_utils._dma_to_spyre_dim_order_swapped(weight)
    assert moved.device_tensor_layout() == swapped([6, 70], torch.float16)
    assert torch.equal(moved.cpu(), rounded(weight))


def test_a_model_without_data_says_how_it_gets_some():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3, device="meta"))
    with pytest.raises(NotImplementedError) as of_the_cpu:
        model.to("cpu")

    with pytest.raises(NotImplementedError, match=re.escape(str(of_the_cpu.value))):
        model.to("spyre")
    assert model.to_empty(device="spyre")[0].weight.is_spyre


def test_parameters_stay_themselves_on_the_way_there_and_back(model):
    parameters = dict(model.named_parameters())
    for device in ("spyre", "cpu", "spyre"):
        model.to(device)
        assert all(model.get_parameter(name) is parameter for name, parameter in parameters.items())
        assert all(parameter.device.type == device for parameter in parameters.values())
        assert model.head.weight is model.embed.weight


def test_an_optimizer_made_before_the_move_steps_what_moved(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("spyre")
    before = model.up.bias.detach().cpu()
    model(torch.randint(0, 50, (2, 7)).to("spyre")).sum().backward()
    optimizer.step()
    assert not torch.equal(model.up.bias.detach().cpu(), before)


def test_data_of_a_parameter_moves(model):
    values = {name: value.clone() for name, value in model.state_dict().items()}
    kept = dict(model.named_parameters())
    for parameter in model.parameters():
        parameter.data = parameter.data.to("spyre")
    assert all(parameter.is_spyre and parameter.requires_grad for parameter in kept.values())
    tokens = torch.randint(0, 50, (2, 7))
    model.to("spyre")(tokens.to("spyre")).sum().backward()
    assert model.up.weight.grad.is_spyre

    for parameter in model.parameters():
        parameter.data = parameter.data.cpu()
    assert all(torch.equal(parameter, rounded(values[name])) for name, parameter in kept.items())


def test_data_with_a_layout_of_its_own_needs_a_tensor_that_holds_one():
    there = torch.randn(70, 6, device="spyre")
    seen = torch.empty_like(there)
    set_spyre_tensor_layout(seen, seen.device_tensor_layout())
    host = nn.Parameter(torch.randn(70, 6))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        host.data = seen
    assert host.device.type == "cpu"
    there.data = seen
    assert torch.equal(there.cpu(), seen.cpu())


def test_lazy_modules_take_their_sizes_on_the_device():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3)).to("spyre")
    y = model(torch.randn(2, 3, 6, 6, device="spyre"))
    assert y.shape == (2, 3) and all(parameter.is_spyre for parameter in model.parameters())
    assert model[3].weight.shape == (3, 64)
