"""The public ops ``torch.ops.spyre.*``: on the device, on the CPU, on tensors that only have a shape, and compiled."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("no_fallback")

spyre = torch.ops.spyre
FP8 = torch.float8_e4m3fn


def numbers(*size, dtype=torch.float32):
    return torch.randn(*size, generator=torch.Generator().manual_seed(5)).to(dtype)


def fp8(*size):
    return numbers(*size).to(FP8)


X, ROWS = numbers(6, 80), numbers(6, 80, dtype=torch.float16)
WEIGHT, BIAS = numbers(80) + 2, numbers(80)
MEAN = torch.stack([X.mean(-1), (X * X).mean(-1)], -1)
SCALE = (X.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
WHOLE = torch.tensor([[3, 1 << 40, -2], [7, 7, 9]])


def overwritten(part, whole, dims, offsets):
    whole = whole.clone()
    places = [slice(None)] * whole.dim()
    for dim, offset in zip(dims, offsets):
        places[dim] = slice(offset, offset + part.shape[dim])
    whole[tuple(places)] = part
    return whole


# name: how it is called, and what PyTorch gives for it.
CALLS = {
    "softplus": (lambda op, x: op(x, 2.0, 15.0), lambda x: F.softplus(x, 2.0, 15.0), [X]),
    "gelu": (lambda op, x: op(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), [X]),
    "silu": (lambda op, x: op(x), F.silu, [ROWS]),
    "clamp": (lambda op, x: op(x, -0.5, max=0.25), lambda x: x.clamp(-0.5, 0.25), [X]),
    "logical_not": (lambda op, x: op(x), torch.logical_not, [X > 0]),
    "layer_norm": (
        lambda op, x, w, b: op(x, [80], w, b, 1e-3),
        lambda x, w, b: F.layer_norm(x, [80], w, b, 1e-3),
        [X, WEIGHT, BIAS],
    ),
    "rms_norm": (lambda op, x, w: op(x, [80], w, 1e-3), lambda x, w: F.rms_norm(x, [80], w, 1e-3), [X, WEIGHT]),
    "exx2": (lambda op, x: op(x), lambda x: MEAN, [X]),
    "layernormscale": (lambda op, pair: op(pair, 1e-5), lambda pair: SCALE, [MEAN]),
    "layernormnorm": (
        lambda op, *given: op(*given),
        lambda x, pair, scale, w, b: F.layer_norm(x, [80], w, b),
        [X, MEAN, SCALE, WEIGHT, BIAS],
    ),
    "topkvalue": (lambda op, x: op(x, 5), lambda x: x.topk(5).values, [X]),
    "topkindex": (lambda op, x: op(x, 5, dim=0), lambda x: x.topk(5, dim=0).indices, [X]),
    "max_dim_int64_fallback": (lambda op, x: op(x, 1), lambda x: tuple(x.max(1)), [WHOLE]),
    "min_dim_int64_fallback": (lambda op, x: op(x, 0, True), lambda x: tuple(x.min(0, True)), [WHOLE]),
    "overwrite_f": (
        lambda op, part, whole: op(part, whole, [0, -1], [2, 7]),
        lambda part, whole: overwritten(part, whole, [0, 1], [2, 7]),
        [numbers(3, 40), X],
    ),
    "restickify": (lambda op, x: op(x, [0]), torch.clone, [X]),
    "unfold": (lambda op, x: op(x, 1, 8, 3), lambda x: x.unfold(1, 8, 3), [X]),
    "reshape_via_cpu": (lambda op, x: op(x, [8, -1]), lambda x: x.reshape(8, -1), [X]),
    "batched_matmul": (lambda op, a, b: op(a, b), torch.matmul, [numbers(2, 4, 32), numbers(2, 32, 5)]),
    "to_dtype_cpu": (lambda op, x: op(x, torch.int32), lambda x: x.to(torch.int32), [X * 100]),
    "qfp8ch": (lambda op, x: op(x), lambda x: x.to(FP8), [ROWS]),
    "quantize_fp8_with_scale": (
        lambda op, x, scale: op(x, scale),
        lambda x, scale: (x / scale).clamp(-448, 448).to(FP8),
        [X * 100, torch.tensor(0.5)],
    ),
    "dequantize_fp8_with_scale": (
        lambda op, x, scale: op(x, scale),
        lambda x, scale: (x.float() * scale).half(),
        [fp8(6, 80), torch.full((6, 1), 0.25)],
    ),
}


def same(ours, expected):
    ours, expected = (value if isinstance(value, tuple) else (value,) for value in (ours, expected))
    for our, value in zip(ours, expected, strict=True):
        assert (our.dtype, our.shape) == (value.dtype, value.shape)
        wide = torch.float64 if value.dtype.is_floating_point else value.dtype
        torch.testing.assert_close(our.cpu().to(wide), value.to(wide), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("device", ["spyre", "cpu"])
@pytest.mark.parametrize("name", CALLS)
def test_an_op_gives_pytorchs_numbers_where_its_tensors_are(name, device):
    call, expected, given = CALLS[name]
    for _ in range(3):  # cold, and as calls that came before
        made = call(getattr(spyre, name), *(tensor.to(device) for tensor in given))
        same(made, expected(*given))
    results = made if isinstance(made, tuple) else (made,)
    assert {result.device.type for result in results} == {device}


@pytest.mark.parametrize("name", CALLS)
def test_an_op_runs_on_another_stream(name):
    call, expected, given = CALLS[name]
    stream = torch.spyre.Stream()
    with stream:
        made = call(getattr(spyre, name), *(tensor.to("spyre") for tensor in given))
    stream.synchronize()
    same(made, expected(*given))


@pytest.mark.parametrize("device", ["spyre", "cpu", "meta"])
@pytest.mark.parametrize("name", CALLS)
def test_an_op_tells_shapes_without_numbers(name, device):
    call, expected, given = CALLS[name]
    with FakeTensorMode():
        fakes = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device) for t in given]
        made = call(getattr(spyre, name), *fakes)
    known = expected(*given)
    for our, value in zip(*((v if isinstance(v, tuple) else (v,)) for v in (made, known)), strict=True):
        assert (our.shape, our.dtype, our.device.type) == (value.shape, value.dtype, device)


@pytest.mark.parametrize("name", ["silu", "layer_norm", "overwrite_f", "quantize_fp8_with_scale", "topkvalue"])
def test_an_op_is_compiled_whole(name):
    call, expected, given = CALLS[name]
    op = getattr(spyre, name)
    compiled = torch.compile(lambda *given: call(op, *given), backend="aot_eager", fullgraph=True)
    same(compiled(*(tensor.to("spyre") for tensor in given)), expected(*given))


@pytest.mark.parametrize("device", ["spyre", "cpu"])
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_overwrite_follows_its_offsets(device, is_compiled):
    def write(part, whole, row):
        spyre.overwrite(part, whole, [0], [row])
        return whole

    run = torch.compile(write, backend="aot_eager", dynamic=True) if is_compiled else write
    whole, part = torch.zeros(9, 70, device=device), numbers(2, 70).to(device)
    expected = torch.zeros(9, 70)
    for row in (0, 3, 6, 7, 2):
        part = part + 1
        run(part, whole, row)
        expected[row : row + 2] = part.cpu()
        assert torch.equal(whole.cpu(), expected)


@pytest.mark.parametrize("device", ["spyre", "cpu"])
def test_overwrite_says_what_does_not_fit(device):
    whole, part = torch.zeros(4, 8, device=device), torch.ones(2, 8, device=device)
    for dims, offsets, why in [
        ([0], [3], "up to 5"),
        ([0], [-1], "offset of dim 0 is -1"),
        ([0, 1], [0], "2 dims and 1 offsets"),
        ([], [], "name it in dims"),
    ]:
        with pytest.raises(RuntimeError, match=why):
            spyre.overwrite(part, whole, dims, offsets)
    assert torch.equal(whole.cpu(), torch.zeros(4, 8))


def test_the_functional_form_leaves_its_input_alone():
    whole, part = torch.zeros(4, 8, device="spyre"), torch.ones(2, 8, device="spyre")
    written = spyre.overwrite_f(part, whole, [0], [1])
    assert whole.sum().item() == 0
    assert written.sum(1).tolist() == [0, 8, 8, 0]


@pytest.mark.parametrize("device", ["spyre", "cpu"])
def test_copies_on_one_device(device):
    source, target = X.to(device), torch.zeros(6, 80, dtype=torch.float16, device=device)
    assert spyre.copy_from_d2d(source, target) is None
    assert torch.equal(target.cpu(), X.half())


def test_a_copy_between_devices_is_none_on_one():
    with pytest.raises(RuntimeError, match="use copy_"):
        spyre.copy_from_d2d(torch.ones(2), torch.ones(2, device="spyre"))


def test_tensors_are_made_on_the_card_unless_another_device_is_given():
    assert spyre.empty([2, 3]).device.type == "spyre"
    made = spyre.empty([2, 3], torch.int8, torch.device("cpu"))
    assert (made.shape, made.dtype, made.device.type) == ((2, 3), torch.int8, "cpu")
    assert spyre.constant(2.5).cpu() == torch.tensor(2.5)
    assert spyre.constant(3).dtype == torch.int64
    assert spyre.constant(True, device=torch.device("cpu")).dtype == torch.bool
    half = spyre.constant(2.5, torch.float16)
    assert (half.item(), half.dtype, half.device.type) == (2.5, torch.float16, "spyre")


def test_shapes_of_results_are_known_without_memory():
    with FakeTensorMode():
        for made, shape in ((spyre.empty([2, 3]), (2, 3)), (spyre.constant(2.5), ())):
            assert (made.shape, made.device.type) == (shape, "spyre")
        target = torch.empty(4, 8, device="spyre")
        assert spyre.overwrite(target[:2], target, [0], [2]) is None
        assert spyre.copy_from_d2d(target, torch.empty(4, 8, device="spyre")) is None


def test_images_are_unfolded_too():
    images = numbers(2, 3, 8, 9)
    ours = spyre.unfold(images.to("spyre"), kernel_size=[3, 2], padding=[1, 0], stride=[2, 1])
    assert torch.equal(ours.cpu(), F.unfold(images, (3, 2), padding=(1, 0), stride=(2, 1)))


def test_a_scale_may_be_a_number():
    x = (X * 300).to("spyre")
    small = spyre.quantize_fp8_with_scale(x, 0.5)
    assert torch.equal(small.cpu().float(), (X * 300 / 0.5).clamp(-448, 448).to(FP8).float())
    assert torch.equal(
        spyre.dequantize_fp8_with_scale(small, 0.5, torch.float32).cpu(), small.cpu().float() * 0.5
    )


def test_ops_have_gradients():
    x, plain = X.to("spyre").requires_grad_(), X.clone().requires_grad_()
    spyre.rms_norm(spyre.silu(x), [80]).square().sum().backward()
    F.rms_norm(F.silu(plain), [80]).square().sum().backward()
    torch.testing.assert_close(x.grad.cpu(), plain.grad, rtol=1e-4, atol=1e-5)
