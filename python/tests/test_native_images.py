"""Convolutions, pools, norms and sizes of images on the card: as the CPU does, and without it."""

import os

import pytest
import torch
import torch.nn.functional as F
from opinfo import judge
from torch.testing._internal.common_methods_invocations import op_db
from torch_spyre.ops.fallbacks import set_fallback_mode

from conftest import needs_spyre

pytestmark = pytest.mark.usefixtures("no_fallback")

LINE, PICTURE, VOLUME = torch.randn(3, 4, 17), torch.randn(3, 4, 11, 9), torch.randn(2, 4, 6, 7, 5)
WIDE = torch.randn(3, 40, 11, 9)
W4 = torch.randn(4)


def weights(*size):
    return torch.randn(*size) * 0.3


CONVOLUTIONS = {
    "line": (lambda x, w, b: F.conv1d(x, w, b, 2, 1), LINE, weights(6, 4, 3), torch.randn(6)),
    "picture": (lambda x, w, b: F.conv2d(x, w, b), PICTURE, weights(6, 4, 3, 2), torch.randn(6)),
    "volume": (lambda x, w: F.conv3d(x, w, None, 1, 1), VOLUME, weights(5, 4, 2, 3, 2)),
    "padded": (lambda x, w: F.conv2d(x, w, padding=1), PICTURE, weights(6, 4, 3, 3)),
    "steps": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), PICTURE, weights(6, 4, 3, 3), torch.randn(6)),
    "dilated": (lambda x, w: F.conv2d(x, w, None, 2, 2, 2), PICTURE, weights(5, 4, 3, 2)),
    "groups": (lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 2), PICTURE, weights(6, 2, 3, 3)),
    "each channel": (lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 4), PICTURE, weights(4, 1, 3, 3), W4),
    "each channel of a volume": (lambda x, w: F.conv3d(x, w, None, 1, 1, 1, 4), VOLUME, weights(4, 1, 3, 2, 3)),
    "many channels": (lambda x, w, b: F.conv2d(x, w, b, 1, 1), WIDE, weights(6, 40, 3, 3), torch.randn(6)),
    "many channels, steps": (lambda x, w: F.conv2d(x, w, None, 3, 1, 2), WIDE, weights(6, 40, 3, 3)),
    "one place": (lambda x, w, b: F.conv2d(x, w, b), WIDE, weights(7, 40, 1, 1), torch.randn(7)),
    "one place, steps": (lambda x, w: F.conv2d(x, w, None, 2), WIDE, weights(7, 40, 1, 1)),
    "no batch": (lambda x, w: F.conv2d(x, w, padding="same"), PICTURE[0], weights(6, 4, 3, 3)),
    "turned": (
        lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w, padding=1), PICTURE, weights(6, 4, 3, 3)
    ),
    "transposed line": (lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1), LINE, weights(4, 5, 3)),
    "transposed": (lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), PICTURE, weights(4, 5, 3, 3), torch.randn(5)),
    "transposed groups": (lambda x, w: F.conv_transpose2d(x, w, None, 3, 1, 2, 2, 2), PICTURE, weights(4, 3, 3, 2)),
    "transposed, many channels": (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), WIDE, weights(40, 5, 3, 3)),
    "transposed volume": (lambda x, w: F.conv_transpose3d(x, w, None, 2, 1, 1), VOLUME, weights(4, 3, 3, 2, 3)),
}  # fmt: skip

POOLS = {
    "max": (lambda x: F.max_pool2d(x, 2), PICTURE),
    "max of a line": (lambda x: F.max_pool1d(x, 3, 2, 1), LINE),
    "max, overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1), PICTURE),
    "max, dilated and cut off": (lambda x: F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True), PICTURE),
    "max of a volume": (lambda x: F.max_pool3d(x, 2, 2, 1), VOLUME),
    "mean": (lambda x: F.avg_pool2d(x, 2), PICTURE),
    "mean of a line": (lambda x: F.avg_pool1d(x, 3, 2, 1), LINE),
    "mean, cut off": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), PICTURE),
    "mean of what is inside": (lambda x: F.avg_pool2d(x, (3, 2), 2, 1, True, False), PICTURE),
    "mean by a number": (lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), PICTURE),
    "mean of a volume": (lambda x: F.avg_pool3d(x, 2, 2, 1, True, False), VOLUME),
    "shared mean": (lambda x: F.adaptive_avg_pool2d(x, (4, 5)), PICTURE),
    "shared mean, larger": (lambda x: F.adaptive_avg_pool2d(x, (13, 4)), PICTURE),
    "shared mean of everything": (lambda x: F.adaptive_avg_pool2d(x, 1), PICTURE),
    "shared mean of a volume": (lambda x: F.adaptive_avg_pool3d(x, (4, 2, 3)), VOLUME),
    "shared max": (lambda x: F.adaptive_max_pool2d(x, (4, 5)), PICTURE),
    "shared max of a volume": (lambda x: F.adaptive_max_pool3d(x, (4, 2, 3)), VOLUME),
}  # fmt: skip

SIZES = {
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), PICTURE),
    "nearest of a line": (lambda x: F.interpolate(x, size=29), LINE),
    "nearest of a volume": (lambda x: F.interpolate(x, size=(3, 9, 11)), VOLUME),
    "nearest, exact": (lambda x: F.interpolate(x, size=(7, 20), mode="nearest-exact"), PICTURE),
    "linear": (lambda x: F.interpolate(x, size=29, mode="linear"), LINE),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), PICTURE),
    "bilinear, corners": (lambda x: F.interpolate(x, size=(5, 20), mode="bilinear", align_corners=True), PICTURE),
    "trilinear": (lambda x: F.interpolate(x, size=(3, 9, 11), mode="trilinear"), VOLUME),
    "bicubic": (lambda x: F.interpolate(x, size=(15, 7), mode="bicubic"), PICTURE),
    "bicubic, corners": (lambda x: F.interpolate(x, size=(15, 7), mode="bicubic", align_corners=True), PICTURE),
    "reflected": (lambda x: F.pad(x, (1, 2, 3, 4), "reflect"), PICTURE),
    "reflected line": (lambda x: F.pad(x, (3, 0), "reflect"), LINE),
    "reflected volume": (lambda x: F.pad(x, (1, 2, 3, 1, 2, 2), "reflect"), VOLUME),
    "replicated": (lambda x: F.pad(x, (1, 2, 3, 4), "replicate"), PICTURE),
    "replicated and cut": (lambda x: F.pad(x, (-1, 2, 3, -4), "replicate"), PICTURE),
    "replicated volume": (lambda x: F.pad(x, (1, 2, 3, 1, 2, 2), "replicate"), VOLUME),
    "zeros": (lambda x: F.pad(x, (1, 2, 3, 4)), PICTURE),
    "unfold": (lambda x: F.unfold(x, (3, 2), 2, 1, 2), PICTURE),
    "fold": (lambda x: F.fold(x, (5, 6), (2, 3), padding=1), torch.randn(2, 18, 36)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), PICTURE),
}  # fmt: skip

NORMS = {
    "batch": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True) ** 2, PICTURE, W4, W4 + 1),
    "batch of vectors": (lambda x: F.batch_norm(x, None, None, training=True) ** 2, torch.randn(40, 5)),
    "batch of volumes": (lambda x, w: F.batch_norm(x, None, None, w, training=True) ** 2, VOLUME, W4),
    "batch, turned": (
        lambda x: F.batch_norm(x.to(memory_format=torch.channels_last), None, None, training=True) ** 2, PICTURE
    ),
    "batch, as before": (
        lambda x, w, b: F.batch_norm(x, torch.arange(4.0).to(x), torch.arange(1.0, 5.0).to(x), w, b) ** 2,
        PICTURE, W4, W4 + 1,
    ),
    "groups": (lambda x, w, b: F.group_norm(x, 2, w, b) ** 2, PICTURE, W4, W4 + 1),
    "groups without weights": (lambda x: F.group_norm(x, 4) ** 2, VOLUME),
    "instances": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b) ** 2, PICTURE, W4, W4 + 1),
}  # fmt: skip

CASES = {**CONVOLUTIONS, **POOLS, **SIZES, **NORMS}

# Samples of PyTorch's own tests; as many as there are without asking for tensors of the host.
SAMPLED = [
    "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d",
    "nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d",
    "nn.functional.max_pool1d", "nn.functional.max_pool2d", "nn.functional.max_pool3d",
    "nn.functional.avg_pool1d", "nn.functional.avg_pool2d", "nn.functional.avg_pool3d",
    "nn.functional.adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d",
    "nn.functional.adaptive_max_pool1d", "nn.functional.adaptive_max_pool2d", "nn.functional.adaptive_max_pool3d",
    "nn.functional.interpolate", "nn.functional.upsample_nearest", "nn.functional.upsample_bilinear",
    "nn.functional.batch_norm", "nn.functional.group_norm", "nn.functional.instance_norm", "native_batch_norm",
    "nn.functional.unfold", "nn.functional.fold", "nn.functional.pad", "nn.functional.pixel_shuffle",
    "nn.functional.pixel_unshuffle",
]  # fmt: skip


def outcome(act, arguments, device, dtype):
    """A result, and the gradients of all arguments."""
    leaves = [argument.to(device, dtype).detach().requires_grad_() for argument in arguments]
    result = act(*leaves)
    slopes = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
    result.backward(slopes.to(device, dtype))
    return [result.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)]


@needs_spyre
@pytest.mark.parametrize("name", CASES)
def test_an_op_and_its_gradient_are_the_cpus(name):
    act, *arguments = CASES[name]
    expected = outcome(act, arguments, "cpu", torch.float32)
    torch.testing.assert_close(outcome(act, arguments, "spyre", torch.float32), expected, rtol=1e-4, atol=1e-4)


@needs_spyre
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("nearest")])
def test_other_floats_are_as_good(name, dtype):
    act, *arguments = CASES[name]
    given = outcome(act, arguments, "spyre", dtype)
    # The card rounds at the end only: what it gives is close to what no rounding would give.
    exact = outcome(act, [argument.to(dtype) for argument in arguments], "cpu", torch.float64)
    try:
        cpus = outcome(act, arguments, "cpu", dtype)
    except NotImplementedError:  # the CPU has not every op in every dtype
        cpus = exact
    tolerance = 1e-7 if dtype == torch.float64 else 4e-2
    for left, right, cpu in zip(given, exact, cpus):
        assert left.dtype == dtype
        # Where results between ops are rounded, too, the CPU is as far away.
        far = max(tolerance, 1.5 * (cpu.double() - right).abs().max().item())
        torch.testing.assert_close(left.double(), right, rtol=tolerance, atol=far)


@needs_spyre
def test_max_pool_returns_the_indices_of_the_cpu():
    x = torch.randn(2, 3, 9, 8)
    expected = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    given = F.max_pool2d(x.to("spyre"), 3, 2, 1, return_indices=True)
    assert all(torch.equal(left.cpu(), right) for left, right in zip(given, expected))


@needs_spyre
def test_a_window_without_numbers_leads_to_a_place_inside():
    x = torch.full((1, 1, 4, 4), float("-inf"))
    expected = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    given = F.max_pool2d(x.to("spyre"), 3, 2, 1, return_indices=True)
    assert all(torch.equal(left.cpu(), right) for left, right in zip(given, expected))


@needs_spyre
def test_running_statistics_follow():
    norms = [torch.nn.BatchNorm2d(4).to(device) for device in ("cpu", "spyre")]
    for _ in range(3):
        x = torch.randn(5, 4, 6, 7) * 2 + 1
        [norm(x.to(norm.weight.device)) for norm in norms]
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        expected, given = (getattr(norm, name).cpu() for norm in norms)
        torch.testing.assert_close(given, expected)


@needs_spyre
def test_gradients_that_are_not_asked_for_are_none():
    x, w = torch.randn(2, 3, 5, 5).to("spyre"), torch.randn(4, 3, 3, 3).to("spyre")
    grad = torch.randn(2, 4, 3, 3).to("spyre")
    lists = ([4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    given = torch.ops.aten.convolution_backward(grad, x, w, *lists, [False, True, False])
    assert [result is None for result in given] == [True, False, True]


@needs_spyre
def test_what_the_card_has_no_kernel_for_is_the_cpus_to_do():
    x, w = torch.randint(-5, 5, (2, 3, 6, 6)), torch.randint(-5, 5, (4, 3, 3, 3))
    set_fallback_mode("silent")
    assert torch.equal(F.conv2d(x.to("spyre"), w.to("spyre")).cpu(), F.conv2d(x, w))


@needs_spyre
def test_a_wrong_shape_is_the_cpus_error():
    x, w = torch.randn(2, 3, 6, 6).to("spyre"), torch.randn(4, 2, 3, 3).to("spyre")
    with pytest.raises(RuntimeError, match="expected input.*to have 2 channels"):
        F.conv2d(x, w)


def moved(value, device):
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device) for item in value)
    return value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors(item)] if isinstance(value, (list, tuple)) else []


def sampled(op, sample, device):
    """Results of an op for a sample, and the gradients of all inputs that require one."""
    arguments = [moved(value, device) for value in (sample.input, *sample.args)]
    keywords = {name: moved(value, device) for name, value in sample.kwargs.items()}
    results = tensors(judge.call(op, (arguments[0], arguments[1:], keywords)))
    leaves = [leaf for leaf in tensors([arguments, list(keywords.values())]) if leaf.requires_grad]
    slopes = [torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(device) for result in results]
    pairs = [(result, slope) for result, slope in zip(results, slopes) if result.requires_grad]
    if pairs and leaves:
        torch.autograd.backward(*zip(*pairs))
    grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return [tensor.detach().cpu() for tensor in [*results, *grads]]


@needs_spyre
@pytest.mark.parametrize("op", [op for op in op_db if op.name in SAMPLED], ids=lambda op: op.full_name)
def test_pytorchs_samples_are_the_cpus(op):
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=True):
        expected = sampled(op, sample, "cpu")
        given = sampled(op, sample, "spyre")
        torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-4, msg=lambda text: f"{sample}\n{text}")


class Block(torch.nn.Module):
    """A block of a residual network."""

    def __init__(self, inputs, outputs, step):
        super().__init__()
        self.first = torch.nn.Conv2d(inputs, outputs, 3, step, 1, bias=False)
        self.second = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(outputs) for _ in range(3))
        self.past = torch.nn.Conv2d(inputs, outputs, 1, step, bias=False)

    def forward(self, x):
        y = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(y)) + self.norms[2](self.past(x))).relu()


def trained(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, 2, 2), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1),
        Block(8, 16, 1), Block(16, 32, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10),
    ).to(device)  # fmt: skip
    images, classes = torch.randn(8, 3, 32, 32).to(device), torch.arange(8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@needs_spyre
def test_a_residual_network_is_trained_as_on_the_cpu():
    expected, given = trained("cpu"), trained("spyre")
    assert expected[-1] < 0.2 * expected[0]
    torch.testing.assert_close(given, expected, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    "settings",
    [{"size": (5, 9)}, {"size": (40, 31)}, {"scale_factor": (0.3, 1.7)}, {"size": (7, 3), "align_corners": True}],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_antialiased_resizes_run_on_the_device(device, no_fallback, mode, settings, dtype):
    make = torch.Generator().manual_seed(4)
    host = torch.randn(2, 3, 17, 23, generator=make).to(dtype)
    ours, theirs = host.to(device).requires_grad_(), host.float().requires_grad_()

    result = F.interpolate(ours, mode=mode, antialias=True, **settings)
    expected = F.interpolate(theirs, mode=mode, antialias=True, **settings)
    weights = torch.randn(expected.shape, generator=make).to(dtype)
    result.backward(weights.to(device))
    expected.backward(weights.float())

    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 4e-3, "atol": 4e-3}
    torch.testing.assert_close(result.detach().cpu().float(), expected.detach(), **close)
    torch.testing.assert_close(ours.grad.cpu().float(), theirs.grad, **close)


@pytest.mark.skipif(os.environ.get("SPYRE_PROFILE", "open") == "card", reason="the card does not cast bytes")
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 9), (40, 31), (17, 11)])
def test_antialiased_resizes_of_bytes_give_the_bytes_of_the_cpu(device, no_fallback, mode, size):
    host = torch.randint(256, (2, 3, 17, 23), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))
    ours = F.interpolate(host.to(device), size=size, mode=mode, antialias=True)
    assert torch.equal(ours.cpu(), F.interpolate(host, size=size, mode=mode, antialias=True))
