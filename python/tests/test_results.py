"""Results that are given (`out=`), their dtypes, shapes and memory; strides and values that the CPU has too."""

import warnings

import pytest
import torch
from conftest import needs_spyre
from torch.nn import functional as F

FILLS = {
    "arange": lambda out: torch.arange(12, out=out),
    "linspace": lambda out: torch.linspace(0, 11, 12, out=out),
    "logspace": lambda out: torch.logspace(0, 1, 12, out=out),
    "range": lambda out: torch.range(0, 11, out=out),
}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("place", [lambda x: x[:, 1:], lambda x: x.t()[1:].t(), lambda x: x[:, 1:].t()])
def test_a_filled_view_keeps_its_shape_and_its_neighbours(device, name, place):
    here, there = torch.full((3, 5), 7.0), torch.full((3, 5), 7.0, device=device)

    FILLS[name](place(here))
    FILLS[name](place(there))

    torch.testing.assert_close(there.cpu(), here)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int16])
@pytest.mark.parametrize("op", [torch.add, torch.mul])
def test_the_arguments_dtype_is_computed_in(device, dtype, op):
    numbers = torch.tensor([1.0, 100.0, 60000.0 if dtype.is_floating_point else 30000.0]).to(dtype)
    wide = torch.float32 if dtype.is_floating_point else torch.int32

    given = op(numbers.to(device), numbers.to(device), out=torch.empty(3, dtype=wide, device=device))

    assert torch.equal(given.cpu(), op(numbers, numbers, out=torch.empty(3, dtype=wide)))


REFUSED_DTYPES = [
    (lambda x, out: torch.exp(x, out=out), torch.int64, "can't be cast"),
    (lambda x, out: torch.special.erfcx(x, out=out), torch.bool, "can't be cast"),
    (lambda x, out: torch.heaviside(x, x, out=out), torch.int64, "different dtypes"),
    (lambda x, out: torch.heaviside(x, x, out=out), torch.float64, "different dtypes"),
    (lambda x, out: torch.isneginf(x, out=out), torch.int64, "non-boolean outputs"),
    (lambda x, out: torch.isposinf(x, out=out), torch.float32, "non-boolean outputs"),
    (lambda x, out: torch.signbit(x, out=out), torch.float16, "non-boolean outputs"),
    (lambda x, out: torch.mm(x, x, out=out), torch.float64, "Expected out tensor to have dtype float"),
    (lambda x, out: torch.addmm(x, x, x, out=out), torch.float16, "Expected out tensor to have dtype float"),
    (lambda x, out: torch.cat([x, x], out=out), torch.int64, "can't be cast"),
    (lambda x, out: torch.softmax(x, 0, out=out), torch.float64, "Expected out tensor to have dtype float"),
    (lambda x, out: torch.floor(x, out=out), torch.float64, "Found dtype Double but expected Float"),
]


@pytest.mark.parametrize("call, dtype, says", REFUSED_DTYPES)
def test_a_result_of_a_wrong_dtype_is_refused(device, call, dtype, says):
    for where in ("cpu", device):
        x = torch.rand(4, 4, device=where)
        with pytest.raises((RuntimeError, TypeError), match=says):
            call(x, torch.empty(4, 4, dtype=dtype, device=where))


def test_a_number_of_the_cpu_is_no_result(device):
    x = torch.ones((), device=device)
    with pytest.raises(RuntimeError, match="same device"):
        torch.add(x, x, out=torch.empty(()))


SHARING = {
    "add": lambda x: torch.add(x[:4], 1, out=x[2:6]),
    "addcdiv": lambda x: torch.addcdiv(x[:4], x[:4], x[:4], out=x[2:6]),
    "cat": lambda x: torch.cat([x[6:8], x[2:4]], out=x[0:4]),
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "gather": lambda x: torch.gather(x, 0, torch.tensor([0, 1], device=x.device), out=x[:2]),
    "index_select": lambda x: torch.index_select(x, 0, torch.tensor([0, 1], device=x.device), out=x[:2]),
    "masked_select": lambda x: torch.masked_select(x, x > 3, out=x[:5]),
    "put_": lambda x: x.put_(torch.tensor([0, 1], device=x.device), x[:2]),
    "take": lambda x: torch.take(x, torch.tensor([0, 1], device=x.device), out=x[:2]),
    "xlog1py": lambda x: torch.special.xlog1py(x[:4], x[:4], out=x[1:5]),
}


@pytest.mark.parametrize("name", SHARING)
def test_memory_that_is_read_is_not_written(device, name):
    for where in ("cpu", device):
        x = torch.arange(1.0, 9.0, device=where)
        with pytest.raises(RuntimeError, match="single memory location"):
            SHARING[name](x)
        assert x.tolist() == list(range(1, 9)), "nothing was written"


@pytest.mark.parametrize("op", [torch.exp, torch.abs, torch.sgn, torch.special.erfcx, torch.cumsum])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_result_of_another_shape_is_resized_with_a_warning(device, op, dtype):
    x = torch.randn(3, 4, dtype=dtype).t()
    arguments = (0,) if op is torch.cumsum else ()
    if dtype.is_complex and op in (torch.special.erfcx, torch.abs):
        pytest.skip("the CPU has none of complex numbers, or makes it from a copy")

    seen = []
    for where in ("cpu", device):
        for shape in ((0,), (5, 5)):
            out = torch.zeros(shape, dtype=dtype, device=where)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                op(x.to(where), *arguments, out=out)
            is_warned = any("was resized" in str(warning.message) for warning in said)
            seen.append((out.shape, out.stride(), is_warned))

    assert seen[:2] == seen[2:]


@pytest.mark.parametrize("call", [
    lambda out: torch.arange(4, out=out),
    lambda out: torch.arange(6, out=out),
    lambda out: torch._C._nn.log_sigmoid(out.new_ones(4), out=out),
    lambda out: torch.addbmm(out.new_ones(2, 2), out.new_ones(1, 2, 3), out.new_ones(1, 3, 2), out=out),
])  # fmt: skip
def test_a_result_is_resized_with_the_cpus_words(device, call):
    seen = []
    for where in ("cpu", device):
        out = torch.zeros(2, 3, device=where)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            call(out)
        words = [str(warning.message).partition(". Note")[0].partition(" (Triggered")[0] for warning in said]
        seen.append((out.tolist(), out.stride(), words))

    assert seen[1] == seen[0]


LAST = torch.channels_last
IMAGES = {
    "abs": lambda x, v: x.abs(),
    "adaptive_avg_pool2d": lambda x, v: F.adaptive_avg_pool2d(x, 3),
    "adaptive_avg_pool3d": lambda x, v: F.adaptive_avg_pool3d(v, 2),
    "channel_shuffle": lambda x, v: F.channel_shuffle(x, 2),
    "conv2d": lambda x, v: F.conv2d(x, x[:, :, :3, :3]),
    "conv2d, weight": lambda x, v: F.conv2d(x.contiguous(), x[:, :, :3, :3].contiguous(memory_format=LAST)),
    "conv3d": lambda x, v: F.conv3d(v, v[:, :, :2, :2, :2]),
    "conv_transpose2d": lambda x, v: F.conv_transpose2d(x, x[:, :, :3, :3].transpose(0, 1)),
    "interpolate": lambda x, v: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "max_pool2d": lambda x, v: F.max_pool2d(x, 2, return_indices=True),
    "max_pool3d": lambda x, v: F.max_pool3d(v, 2, return_indices=True),
    "max_unpool2d": lambda x, v: F.max_unpool2d(*F.max_pool2d(x[:, :, :4, :6], 2, return_indices=True), 2),
    "channel_shuffle": lambda x, v: F.channel_shuffle(x, 2),
    "channel_shuffle of volumes": lambda x, v: F.channel_shuffle(v, 3),
    "channel_shuffle of nothing": lambda x, v: F.channel_shuffle(x[:0], 2),
    "grid_sample": lambda x, v: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
    "grid_sample by a grid in rows": lambda x, v: F.grid_sample(x, x.new_zeros(2, 4, 3, 2), align_corners=False),
    "pixel_shuffle": lambda x, v: F.pixel_shuffle(x, 2),
    "pixel_shuffle to one channel": lambda x, v: F.pixel_shuffle(x[:, :4].clone(), 2),
    "pixel_unshuffle": lambda x, v: F.pixel_unshuffle(x[:, :, :4, :6], 2),
    "reflection_pad2d": lambda x, v: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "reflection_pad3d": lambda x, v: F.pad(v, (1,) * 6, mode="reflect"),
    "replication_pad2d": lambda x, v: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "replication_pad3d": lambda x, v: F.pad(v, (1,) * 6, mode="replicate"),
    "index of images": lambda x, v: x[torch.tensor([1, 0, 1], device=x.device)],
    "index of rows": lambda x, v: x[:, :, torch.tensor([[4, 0], [1, 2]], device=x.device)],
    "index by turned ones": lambda x, v: x[torch.tensor([[1, 0, 1], [0, 0, 1]], device=x.device).t()],
    "index of two dims apart": lambda x, v: v[(at := torch.tensor([1, 0], device=x.device)), :, at + 1],
    "angle of complex": lambda x, v: torch.complex(x, x).angle() if x.dtype == torch.float32 else x,
    "cumprod of complex": lambda x, v: torch.complex(x[0], x[0]).cumprod(0) if x.dtype == torch.float32 else x,
    "batch_norm of rows": lambda x, v: F.batch_norm(x[:, 0].mT, None, None, training=True),
    "batch_norm of images": lambda x, v: F.batch_norm(x, None, None, training=True),
    "group_norm of images": lambda x, v: F.group_norm(x, 2),
    "layer_norm of columns": lambda x, v: F.layer_norm(x[:, 0].mT, (5,)),
    "layer_norm of images": lambda x, v: F.layer_norm(x, (5, 7)),
    "rms_norm of columns": lambda x, v: F.rms_norm(x[:, 0].mT, (5,)),
    "roll": lambda x, v: x.roll(1, 2),
    "roll of all": lambda x, v: x.roll(3),
    "nonzero": lambda x, v: (x > 0).nonzero(),
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_results_lie_as_the_cpus_do(device, name, dtype):
    torch.manual_seed(3)
    x = torch.randn(2, 8, 5, 7).to(dtype).contiguous(memory_format=LAST)
    v = torch.randn(2, 3, 4, 5, 6).to(dtype).contiguous(memory_format=torch.channels_last_3d)
    bounds = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.float16 else {"rtol": 1e-4, "atol": 1e-4}

    there = IMAGES[name](x.to(device), v.to(device))
    if name == "conv3d" and dtype == torch.float16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported():
        here = IMAGES[name](x.float(), v.float()).to(dtype)  # this CPU has no such kernel: another lays them in rows
    else:
        here = IMAGES[name](x, v)
    if name == "max_unpool2d":
        here = here.contiguous()  # as PyTorch promises of all devices but the CPU

    torch.testing.assert_close(there, here, check_device=False, check_stride=True, **bounds)


NAN, INF = float("nan"), float("inf")
VALUES = {
    "cat of real and complex": lambda d: torch.cat([torch.tensor([1.0], device=d), torch.tensor([2j], device=d)]),
    "cat of whole and complex": lambda d: torch.cat([torch.tensor([1], device=d), torch.tensor([2j], device=d)]),
    "pad of complex": lambda d: F.pad(torch.tensor([1 + 2j], device=d), (1, 1), value=5.0),
    "pow of negative": lambda d: torch.pow(torch.tensor([-2.0, 3], device=d), torch.tensor([1 + 2j, 2], device=d)),
    "pow by a number": lambda d: torch.tensor([-2.0, 3], device=d) ** (1 + 2j),
    "logcumsumexp of nan": lambda d: torch.logcumsumexp(torch.tensor([1, NAN, 2], device=d), 0),
    "logcumsumexp of far": lambda d: torch.logcumsumexp(torch.tensor([0.0, 1000, -INF, INF, 1], device=d), 0),
    "prod of a dtype": lambda d: torch.prod(torch.tensor([1.5, 2.5], device=d), dtype=torch.int64),
    "prod of float64": lambda d: torch.prod(torch.full((9,), 1e30, device=d), dtype=torch.float64),
    "unique_consecutive": lambda d: torch.unique_consecutive(
        torch.empty(0, 0, 3, device=d), return_inverse=True, return_counts=True
    ),
    "all of no dims": lambda d: torch.all(torch.tensor([[0.0, 1], [1, 1]], device=d), dim=[]),
    "any of no dims": lambda d: torch.any(torch.tensor([[0.0, 1], [1, 1]], device=d), dim=[], keepdim=True),
    "conj_physical_": lambda d: torch.full((4, 4), 1 + 2j, device=d)[::2, 1:3].conj_physical_(),
    "spherical_bessel_j0": lambda d: torch.special.spherical_bessel_j0(torch.tensor([INF, -INF, NAN, 0.0], device=d)),
    "lu_unpack of no columns": lambda d: torch.lu_unpack(
        torch.empty(4, 0, device=d), torch.tensor([2, 2, 3, 4], dtype=torch.int32, device=d)
    ),
    "lu_solve of complex": lambda d: torch.lu_solve(
        torch.tensor([[1j], [2]], device=d), *torch.linalg.lu_factor(torch.tensor([[2, 1j], [1, 3]], device=d))
    ),
    "lu_unpack of complex": lambda d: torch.lu_unpack(
        *torch.linalg.lu_factor(torch.tensor([[1, 1j], [2, 3]], device=d))
    ),
    "multi_margin_loss of nan": lambda d: F.multi_margin_loss(
        torch.tensor([[0.2, NAN, 0.9], [NAN, 1, 2]], device=d), torch.tensor([0, 0], device=d), reduction="none"
    ),
    "multi_margin_loss, weighted": lambda d: F.multi_margin_loss(
        torch.tensor([0.2, 0.5, 0.9], device=d), torch.tensor(1, device=d), 2, weight=torch.tensor([1.0, 2, 3], device=d)
    ),
    "cdist of nan": lambda d: torch.cdist(
        torch.tensor([[NAN, 1], [2, 3]], device=d), torch.tensor([[2.0, 1]], device=d), p=0
    ),
    "nextafter of halves": lambda d: torch.nextafter(
        torch.tensor([-INF, INF, 1, 1, -1, 0, -0.0, 0, 65504, NAN, 1, 2**-14], device=d).half(),
        torch.tensor([0, 0, 2, 0, -2, 1, -1, -0.0, INF, 1, NAN, 0], device=d).half(),
    ).view(torch.int16),
    "nextafter of bfloat16": lambda d: torch.nextafter(
        torch.tensor([1, -3.0], device=d).bfloat16(), torch.tensor(0.0, device=d).bfloat16()
    ),
    "mode into results": lambda d: torch.mode(
        torch.tensor([[1, 2, 2], [3, 3, 1]], device=d), 1,
        out=(torch.zeros(2, dtype=torch.int64, device=d), torch.zeros(2, dtype=torch.int64, device=d)),
    )[0],
    "mode to results": lambda d: torch.mode(
        torch.tensor([[3, 1, 3], [2, 2, 1]], device=d),
        out=(torch.empty(0, dtype=torch.int64, device=d), torch.empty(0, dtype=torch.int64, device=d)),
    ),
    "norm of the largest": lambda d: torch.linalg.vector_norm(torch.tensor([[3e38], [-2.0]], device=d), dim=1),
    "norm of 3 of the largest": lambda d: torch.linalg.vector_norm(torch.tensor(-3e38, device=d), 3),
    "masked.prod": lambda d: torch.masked.prod(torch.full((2, 3), 2.0, device=d), dim=(), keepdim=True),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_the_cpus(device, name):
    here, there = VALUES[name]("cpu"), VALUES[name](device)

    torch.testing.assert_close(there, here, equal_nan=True, check_device=False)


def test_nothing_of_complex_numbers_keeps_its_strides(device):
    seen = [torch.empty(1, 0, 3, dtype=torch.complex64, device=where).exp().stride() for where in ("cpu", device)]

    assert seen[1] == seen[0]


@pytest.mark.parametrize("shape, dim", [((0, 0, 3), 0), ((3, 0), 0)])
def test_rows_of_nothing_are_refused(device, shape, dim):
    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match="unique cannot be applied"):
            torch.unique_consecutive(torch.empty(shape, device=where), dim=dim)


@pytest.mark.parametrize("dtype, least", [(torch.float16, 9000), (torch.bfloat16, 1500)])
def test_narrow_floats_are_drawn_as_wide_ones(device, dtype, least):
    drawn = torch.empty(1_000_000, dtype=dtype, device=device).uniform_().cpu().float()

    assert drawn.unique().numel() > least
    assert drawn.min() >= 0 and drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 2e-3


def test_a_bag_of_nothing_has_no_gradient(device):
    table = torch.nn.EmbeddingBag(4, 3, mode="max", device=device)
    bags = table(torch.empty(0, dtype=torch.int64, device=device), torch.tensor([0], device=device))

    bags.sum().backward()

    assert bags.tolist() == [[0.0, 0.0, 0.0]]
    assert table.weight.grad.abs().sum().item() == 0


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("x, target", [
    ([0.1, 0.2, 0.4, 0.8], [3, 0, -1, 1]),
    ([[0.1, 0.2, 0.4, 0.8], [0.5, -0.2, 0.4, 0.3]], [[3, 0, -1, 1], [-1, 2, 2, 2]]),
])  # fmt: skip
def test_multilabel_margins_are_the_cpus(device, reduction, x, target):
    seen = []
    for where in ("cpu", device):
        scores = torch.tensor(x, device=where, requires_grad=True)
        loss = F.multilabel_margin_loss(scores, torch.tensor(target, device=where), reduction=reduction)
        loss.sum().backward()
        seen.append((loss.detach().cpu(), scores.grad.cpu()))

    torch.testing.assert_close(seen[1], seen[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_a_correction_that_leaves_nothing_is_warned_of(device, name, dtype):
    for where in ("cpu", device):
        with pytest.warns(UserWarning, match=f"^{name}..: degrees of freedom is <= 0"):
            getattr(torch, name)(torch.ones(3, 4, dtype=dtype, device=where), -1, correction=4)


@needs_spyre
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_number_is_compared_as_the_tensors_dtype_has_it(dtype):
    x = torch.tensor([3.14, 1.0, 3.140625, -70000.0], dtype=dtype)
    for compare in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        assert torch.equal(compare(x.to("spyre"), 3.14).cpu(), compare(x, 3.14))
