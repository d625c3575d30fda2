"""Calls that PyTorch refuses: the device refuses them, too, with the CPU's exception."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from conftest import needs_spyre

NAN, INF = float("nan"), float("inf")

CALLS = {
    "flip twice": lambda d: torch.ones(2, 2, device=d).flip((0, 0)),
    "flip twice, from the end": lambda d: torch.ones(2, 2, device=d).flip((0, -2)),
    "masked_fill_ of a smaller tensor": lambda d: torch.ones(2, 1, device=d).masked_fill_(
        torch.ones(2, 2, dtype=torch.bool, device=d), 1
    ),
    "masked_fill_ with many values": lambda d: torch.ones(2, device=d).masked_fill_(
        torch.ones(2, dtype=torch.bool, device=d), torch.ones(2, device=d)
    ),
    "repeat_interleave": lambda d: torch.arange(3, device=d).repeat_interleave(torch.tensor([-1, 1, 2], device=d)),
    "binary_cross_entropy": lambda d: F.binary_cross_entropy(*torch.tensor([[2.0, 0.5], [0.5, 0.5]], device=d)),
    "binary_cross_entropy, NaN": lambda d: F.binary_cross_entropy(*torch.tensor([[NAN, 0.5], [0.5, 0.5]], device=d)),
    "bernoulli": lambda d: torch.bernoulli(torch.tensor([2.0, 0.5], device=d)),
    "bernoulli, NaN": lambda d: torch.bernoulli(torch.tensor([NAN, 0.5], device=d)),
    "bernoulli_": lambda d: torch.ones(2, device=d).bernoulli_(torch.tensor([-1.0, 0.5], device=d)),
    "histc, ends in the wrong order": lambda d: torch.histc(torch.ones(3, device=d), 10, 2, 1),
    "histogram, NaN": lambda d: torch.histogram(torch.tensor([1, NAN], device=d), 10),
    "histogram, infinite": lambda d: torch.histogram(torch.tensor([1, INF], device=d), 10),
    "histc, infinite": lambda d: torch.histc(torch.tensor([1, INF], device=d), 10),
    "histc, NaN": lambda d: torch.histc(torch.tensor([1, NAN], device=d), 10),
    "histc, end NaN": lambda d: torch.histc(torch.ones(3, device=d), 10, 0, NAN),
    "fill_ past the largest": lambda d: torch.ones(2, dtype=torch.uint8, device=d).fill_(300),
    "full past the largest": lambda d: torch.full((2,), 70000, dtype=torch.int16, device=d),
    "fill_ of half with too much": lambda d: torch.ones(2, dtype=torch.float16, device=d).fill_(1e10),
    "adaptive_avg_pool2d backward of nothing": lambda d: F.adaptive_avg_pool2d(
        torch.ones(1, 1, 4, 4, device=d, requires_grad=True), 0
    )
    .sum()
    .backward(),
    "adaptive_avg_pool2d of nothing": lambda d: F.adaptive_avg_pool2d(torch.ones(1, 1, 0, 4, device=d), 2),
    "layer_norm over nothing": lambda d: torch.native_layer_norm(torch.ones(2, device=d), (), None, None, 1e-5),
    "cross_entropy": lambda d: F.cross_entropy(torch.zeros(2, 4, device=d), torch.full((2,), 9, device=d)),
    "cross_entropy of one": lambda d: F.cross_entropy(torch.zeros(4, device=d), torch.tensor(9, device=d)),
    "cross_entropy of rows": lambda d: F.cross_entropy(torch.zeros(2, 4, 3, device=d), torch.full((2, 3), 9, device=d)),
    "cross_entropy, negative": lambda d: F.cross_entropy(
        torch.zeros(2, 4, 3, device=d), torch.full((2, 3), -9, device=d)
    ),
    "cross_entropy of images": lambda d: F.cross_entropy(
        torch.zeros(2, 4, 3, 3, device=d), torch.full((2, 3, 3), 4, device=d)
    ),
    "nll_loss2d, sizes": lambda d: F.nll_loss(
        torch.zeros(2, 4, 3, 3, device=d), torch.zeros(2, 3, 4, dtype=torch.int64, device=d)
    ),
    "copy_ to shifted memory": lambda d: (lambda x: x[1:].copy_(x[:-1]))(torch.arange(6.0, device=d)),
    "index_select to itself": lambda d: (lambda x: torch.index_select(x, 0, torch.tensor([1, 0], device=d), out=x))(
        torch.arange(2.0, device=d)
    ),
    "cat to itself": lambda d: (lambda x: torch.cat([x, x], out=x))(torch.arange(2.0, device=d)),
    "take to itself": lambda d: (lambda x: torch.take(x, torch.tensor([1, 0], device=d), out=x))(
        torch.arange(2.0, device=d)
    ),
    "complex of another width": lambda d: torch.complex(
        torch.ones(2, device=d), torch.ones(2, device=d), out=torch.ones(2, dtype=torch.complex128, device=d)
    ),
    "hardtanh of bytes, negative": lambda d: F.hardtanh(torch.ones(2, dtype=torch.uint8, device=d), -1, 1),
    "hardtanh of bytes, too large": lambda d: F.hardtanh(torch.ones(2, dtype=torch.uint8, device=d), 0, 300),
    "threshold of bytes": lambda d: F.threshold(torch.ones(2, dtype=torch.uint8, device=d), 300, 1),
    "threshold by too much": lambda d: F.threshold(torch.ones(2, dtype=torch.int8, device=d), 1, 300),
    "borders of nothing": lambda d: F.pad(torch.ones(1, 2, 3, 0, device=d), (1, 1, 1, 1), mode="replicate"),
    "bincount of floats": lambda d: torch.bincount(torch.tensor([1.0, 0.3], device=d)),
    "searchsorted, side": lambda d: torch.searchsorted(*torch.ones(2, 3, device=d), side="bad"),
    "searchsorted, sorter of floats": lambda d: torch.searchsorted(
        *torch.ones(2, 3, device=d), sorter=torch.zeros(3, device=d)
    ),
    "searchsorted, sorter too short": lambda d: torch.searchsorted(
        *torch.ones(2, 3, device=d), sorter=torch.zeros(2, dtype=torch.int64, device=d)
    ),
    "mode to another dtype": lambda d: torch.mode(
        torch.ones(3, device=d), out=(torch.ones((), dtype=torch.int64, device=d),) * 2
    ),
    "one_hot, negative": lambda d: F.one_hot(torch.tensor([3, 4, -1, 0], device=d)),
    "one_hot past the last": lambda d: F.one_hot(torch.tensor([3, 4, 1, 0], device=d), 3),
    "where to another dtype": lambda d: torch.where(
        torch.ones(2, device=d) > 0, 1.0, torch.ones(2, device=d), out=torch.ones(2, dtype=torch.float64, device=d)
    ),
    "norm to another dtype": lambda d: torch.linalg.vector_norm(
        torch.ones(2, device=d), out=torch.ones((), dtype=torch.float64, device=d)
    ),
    "mean to whole numbers": lambda d: torch.mean(
        torch.ones(2, 3, device=d), 1, out=torch.ones(2, dtype=torch.int64, device=d)
    ),
    "nansum to whole numbers": lambda d: torch.nansum(
        torch.ones(2, 3, device=d), 1, out=torch.ones(2, dtype=torch.int64, device=d)
    ),
    "scatter into nothing": lambda d: torch.ones(0, 4, device=d).scatter(0, torch.ones(2, 4, device=d).long(), 1.0),
    "scatter_add into nothing": lambda d: torch.ones(0, 4, device=d).scatter_add(
        0, torch.ones(2, 4, device=d).long(), torch.ones(2, 4, device=d)
    ),
    "index_copy into nothing": lambda d: torch.ones(0, 4, device=d).index_copy(
        0, torch.ones(2, device=d).long(), torch.ones(2, 4, device=d)
    ),
    "samples of nothing": lambda d: F.grid_sample(
        torch.ones(2, 3, 5, 0, device=d), torch.ones(2, 4, 4, 2, device=d), align_corners=False
    ),
    "embedding_bag, offsets of nothing": lambda d: F.embedding_bag(
        torch.ones(0, device=d).long(), torch.ones(4, 3, device=d), torch.tensor([0, 3], device=d)
    ),
    "kthvalue of one": lambda d: torch.kthvalue(torch.tensor(1.0, device=d), 5),
}
for name, offsets, indices in (
    ("offsets that do not begin with 0", [1, 2], [0, 1, 2]),
    ("offsets past the end", [0, 5], [0, 1, 2]),
    ("offsets that fall", [0, 2, 1], [0, 1, 2]),
    ("rows that are none", [0, 2], [0, 1, 7]),
):
    CALLS[f"embedding_bag, {name}"] = lambda d, offsets=offsets, indices=indices: F.embedding_bag(
        torch.tensor(indices, device=d), torch.ones(4, 3, device=d), torch.tensor(offsets, device=d)
    )
for dims in (1, 2, 3):
    for mode, dtype in itertools.product(("reflect", "replicate"), (torch.float32, torch.complex64)):
        CALLS[f"pad of {dims} dims without channels, {mode}, {dtype}"] = lambda d, n=dims, mode=mode, dtype=dtype: F.pad(
            torch.ones([3, 0, *[10] * n], dtype=dtype, device=d), [2] * (2 * n), mode
        )
        CALLS[f"pad of {dims} dims, too wide, {mode}, {dtype}"] = lambda d, n=dims, mode=mode, dtype=dtype: F.pad(
            torch.ones([1, 2, *[3] * n], dtype=dtype, device=d), [4 if mode == "reflect" else -2] * (2 * n), mode
        )
NORMS = {
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w, training=True),
    "batch_norm in use": lambda x, w: F.batch_norm(x, w, w),
    "batch_norm, statistics": lambda x, w: F.batch_norm(x, w.clone(), w.clone(), training=True),
    "instance_norm": lambda x, w: F.instance_norm(x, weight=w, bias=w),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w),
}
for name, norm in NORMS.items():
    for kind, of_weights in (
        (torch.float64, torch.float32),
        (torch.float32, torch.float16),
        (torch.bfloat16, torch.float16),
    ):
        CALLS[f"{name} of {kind} with {of_weights}"] = lambda d, norm=norm, kind=kind, of_weights=of_weights: norm(
            torch.ones(2, 4, 4, dtype=kind, device=d), torch.ones(4, dtype=of_weights, device=d)
        )
for name in ("var", "std", "var_mean", "std_mean"):
    CALLS[f"{name} of a dim named twice"] = lambda d, name=name: getattr(torch, name)(torch.ones(2, 3, device=d), (0, -2))
    CALLS[f"{name} of 65 dims"] = lambda d, name=name: getattr(torch, name)(torch.ones([1] * 65, device=d), -1)


def refused(call, device) -> BaseException | None:
    try:
        result = call(device)
        if isinstance(result, torch.Tensor):
            result.cpu()
    except Exception as error:  # noqa: BLE001
        return error
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_raises_as_on_the_cpu(device, name):
    expected, found = refused(CALLS[name], "cpu"), refused(CALLS[name], device)
    assert expected is not None
    assert type(found) is type(expected), found


@needs_spyre
@pytest.mark.parametrize("value", [NAN, INF])
def test_eigenvalues_of_what_is_not_finite_are_refused(device, value):
    """The CPU's library may end the process."""
    x = torch.full((3, 3), value, device=device)
    for out in ({}, {"out": torch.empty(3, dtype=torch.complex64, device=device)}):
        with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
            torch.linalg.eigvals(x, **out)


OF_FLOATS = {
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 2), (1, 1, 4)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), (1, 1, 4, 4)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), (1, 1, 4, 4)),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (1, 1, 4, 4)),
    "softmax": (lambda x: x.softmax(0), (4,)),
    "log_softmax": (lambda x: x.log_softmax(0), (4,)),
    "gelu": (F.gelu, (4,)),
    "silu": (F.silu, (4,)),
    "mish": (F.mish, (4,)),
    "glu": (F.glu, (4,)),
    "frac": (torch.frac, (4,)),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, x), (4,)),
    "mse_loss": (lambda x: F.mse_loss(x, x), (4,)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", OF_FLOATS)
def test_what_is_for_floats_takes_no_others(device, name, dtype):
    function, size = OF_FLOATS[name]
    expected, found = (refused(lambda d: function(torch.ones(size, dtype=dtype, device=d)), d) for d in ("cpu", device))
    assert type(found) is type(expected), found


@needs_spyre
@pytest.mark.parametrize(
    "call",
    [
        lambda x, at: x[at],
        lambda x, at: x.index_put_((at,), torch.tensor(1, device="spyre")),
        lambda x, at: x.index_fill_(0, at, 1),
        lambda x, at: x.index_fill_(0, at, torch.tensor(1, device="spyre")),
        lambda x, at: x.take(at),
        lambda x, at: x.index_select(0, at),
        lambda x, at: x.put(at, torch.tensor([1], device="spyre")),
    ],
)
@pytest.mark.parametrize("index", [-7, -4, 3, 7])
def test_an_index_out_of_range_is_reported_as_it_was_given(call, index):
    with pytest.raises(IndexError, match=rf"index {index} "):
        call(torch.arange(3, device="spyre"), torch.tensor([index], device="spyre")).cpu()


def test_indices_from_the_end_are_taken(device):
    x = torch.arange(6.0, device=device)
    at = torch.tensor([-6, -1, 0, 5], device=device)
    assert x[at].tolist() == [0, 5, 0, 5]
    assert x.index_fill(0, at, 9).tolist() == [9, 1, 2, 3, 4, 9]
    assert x.clone().index_put_((at,), torch.tensor(7.0, device=device)).tolist() == [7, 1, 2, 3, 4, 7]


@needs_spyre
@pytest.mark.parametrize("dtype, other", [(torch.float16, torch.float16), (torch.int32, torch.int32),
                                          (torch.float32, torch.float64)])  # fmt: skip
def test_boxes_of_a_dtype_that_torchvision_refuses_are_refused(dtype, other):
    from torch_spyre.ops.composites.boxes import nms
    from torch_spyre.ops.composites.table import Declined

    with pytest.raises(Declined):
        nms(torch.ones(2, 4, dtype=dtype, device="spyre"), torch.ones(2, dtype=other, device="spyre"), 0.5)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("size", [(4,), (3, 4), (2, 4, 5), (2, 4, 3, 5), (2, 4, 2, 3, 2)])
def test_losses_of_classes_are_the_cpus(device, size, reduction):
    torch.manual_seed(1)
    x, weight = torch.randn(size), torch.rand(4)
    target = torch.randint(4, size[1:] if len(size) == 1 else (size[0], *size[2:]))
    if target.dim():
        target.view(-1)[0] = -100
    ours, theirs = (
        F.cross_entropy(x.to(d), target.to(d), weight=weight.to(d), reduction=reduction).cpu() for d in (device, "cpu")
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("size", [3, None])
def test_repeats_work_with_and_without_an_output_size(device, size):
    repeats = torch.tensor([0, 1, 2], device=device)
    assert torch.repeat_interleave(repeats, output_size=size).tolist() == [1, 2, 2]
    assert torch.repeat_interleave(repeats[:0]).tolist() == []


@pytest.mark.filterwarnings("ignore")
def test_what_pytorch_does_by_address_is_done_on_a_copy(device):
    x = torch.tensor([[1.0, 1e6, -1e6]])
    ours, theirs = (torch.ops.aten._saturate_weight_to_fp16(x.to(d)).cpu() for d in (device, "cpu"))
    assert torch.equal(ours, theirs)
    ours, theirs = (torch.ops.aten.choose_qparams_optimized(x.to(d), 3, 200, 0.16, 8) for d in (device, "cpu"))
    assert [one.tolist() for one in ours] == [other.tolist() for other in theirs]
    assert torch.ops.aten.range.out_(1, 3, out=torch.empty(3, device=device)).tolist() == [1, 2, 3]


@needs_spyre
@pytest.mark.parametrize("size", [(2, 3), (4,), (2, 3, 4, 4), (2, 7)])
def test_gates_of_another_width_are_refused(size):
    gates = torch.ones(size, device="spyre")
    for call in (
        lambda: torch.ops.aten._thnn_fused_lstm_cell(gates, gates, gates),
        lambda: torch.ops.aten._thnn_fused_gru_cell(gates[..., :2], gates[..., :2], gates[..., :2]),
        lambda: torch.ops.aten._thnn_fused_gru_cell_backward(gates, gates, False),
    ):
        with pytest.raises(RuntimeError, match="parts side by side"):
            call()
