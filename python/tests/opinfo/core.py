"""The core ATen operators: those that `op_db` never calls by their own overload are called here."""

from __future__ import annotations

import warnings

import torch
from torch.utils._pytree import tree_map

from . import judge
from .native_judge import Native, Overloads, Watch, on_the_device_only

aten = torch.ops.aten


def core_overloads() -> list[str]:
    """Every overload with PyTorch's own tag."""
    names = []
    for packet in (getattr(aten, name) for name in dir(aten)):
        if isinstance(packet, torch._ops.OpOverloadPacket):
            overloads = (getattr(packet, name) for name in packet.overloads())
            names += [overload.name() for overload in overloads if torch.Tag.core in overload.tags]
    return sorted(names)


def calls() -> dict[str, tuple]:
    """Overloads that samples reach by other names only, and what they are called with."""
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    whole, image = torch.arange(15).reshape(3, 5), torch.randn(2, 3, 8, 8)
    volume, truth = torch.randn(2, 3, 4, 6, 8), x > 0
    numbers = "add sub mul div eq ne lt le gt ge fmod remainder".split()
    norm = (image, torch.rand(3), torch.rand(3), torch.zeros(3), torch.ones(3))
    return {
        **{f"{name}.Scalar": (x, 2.0) for name in numbers},
        **{f"bitwise_{name}.Scalar": (whole, 6) for name in ("and", "or", "xor")},
        "_adaptive_avg_pool2d": (image, (3, 5)),
        "_adaptive_avg_pool2d_backward": (torch.randn(2, 3, 4, 4), image),
        "_adaptive_avg_pool3d": (volume, (2, 3, 4)),
        "_cdist_forward": (x, y, 2.0, None),
        "_embedding_bag": (torch.randn(9, 4), torch.arange(6), torch.tensor([0, 2])),
        "_fft_c2r": (torch.randn(4, 5, dtype=torch.complex64), [1], 0, 8),
        "_fft_r2c": (torch.randn(4, 8), [1], 0, True),
        "_local_scalar_dense": (torch.tensor(2.5),),
        "_native_batch_norm_legit": (*norm, True, 0.1, 1e-5),
        "_native_batch_norm_legit.no_stats": (*norm[:3], True, 0.1, 1e-5),
        "_native_batch_norm_legit_no_training": (*norm, 0.1, 1e-5),
        "_pdist_forward": (x, 2.0),
        "_to_copy": (x,),
        "alias": (x,),
        "any.dim": (truth, 1),
        "any.dims": (truth, [0, 1]),
        "arange.start_step": (2, 11, 3),
        "atan2.out": (x, y),
        "avg_pool2d": (image, [2, 2]),
        "avg_pool2d_backward": (torch.randn(2, 3, 4, 4), image, [2, 2], [2, 2], [0, 0], False, True, None),
        "avg_pool3d": (volume, [2, 2, 2]),
        "adaptive_avg_pool1d": (torch.randn(2, 3, 8), [5]),
        "avg_pool1d": (torch.randn(2, 3, 8), [2]),
        "clamp": (x, -0.5, 0.5),
        "clamp.Tensor": (x, y - 1, y + 1),
        "col2im": (torch.randn(2, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
        "convolution": (image, torch.randn(4, 3, 3, 3), torch.randn(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        "convolution_backward": (
            torch.randn(2, 4, 8, 8), image, torch.randn(4, 3, 3, 3), [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
            [True, True, True],
        ),
        "copy": (x, y),
        "div.Scalar_mode": (x, 2.0),
        "embedding": (x, torch.tensor([2, 0, 1])),
        "embedding_dense_backward": (x, torch.tensor([1, 0, 1]), 4, -1, False),
        "empty.memory_format": ([2, 3],),
        "empty_strided": ([2, 3], [3, 1]),
        "fill.Scalar": (x, 3.0),
        "full": ([2, 3], 1.5),
        "grid_sampler_2d": (image, torch.rand(2, 4, 4, 2) * 2 - 1, 0, 0, False),
        "index_put": (x, [torch.tensor([0, 2])], torch.randn(2, 5)),
        "max_pool2d_with_indices": (image, [2, 2]),
        "max_pool2d_with_indices_backward": (
            torch.randn(2, 3, 4, 4), image, [2, 2], [2, 2], [0, 0], [1, 1], False,
            torch.nn.functional.max_pool2d(image, 2, return_indices=True)[1],
        ),
        "max_pool3d_with_indices": (volume, [2, 2, 2]),
        "mean": (x,),
        "native_dropout": (x, 0.5, True),
        "native_group_norm": (image, torch.rand(3), torch.rand(3), 2, 3, 64, 3, 1e-5),
        "native_group_norm_backward": (
            image, image, torch.rand(2, 3), torch.rand(2, 3), torch.rand(3), 2, 3, 64, 3, [True, True, True]
        ),
        "native_layer_norm": (x, [5], torch.rand(5), torch.rand(5), 1e-5),
        "native_layer_norm_backward": (
            x, y, [5], x.mean(1, True), x.std(1, keepdim=True), torch.rand(5), torch.rand(5), [True, True, True]
        ),
        "pow.Scalar": (2.0, x),
        "prod": (x,),
        "rand": ([2, 3],),
        "randn": ([2, 3],),
        "randperm": (7,),
        "reflection_pad1d": (x, [1, 2]),
        "reflection_pad2d": (image, [1, 2, 2, 1]),
        "reflection_pad3d": (volume, [1, 2, 2, 1, 1, 1]),
        "replication_pad2d": (image, [1, 2, 2, 1]),
        "replication_pad3d": (volume, [1, 2, 2, 1, 1, 1]),
        "scalar_tensor": (2.5,),
        "scatter.value": (x, 1, whole % 5, 2.0),
        "sym_numel": (x,),
        "sym_size.int": (x, 1),
        "sym_storage_offset": (x,),
        "sym_stride.int": (x, 0),
        "upsample_bilinear2d.vec": (image, [11, 7], False, None),
        "upsample_nearest2d.vec": (image, [11, 7], None),
        "var.dim": (x, [1]),
    }  # fmt: skip


MAKE = {"arange.start_step", "empty.memory_format", "empty_strided", "full", "rand", "randn", "randperm", "scalar_tensor"}
"""Overloads that make a tensor from nothing: they are given the device."""

FIRST_ONLY = {"_embedding_bag"}
"""Overloads whose further results are for their own gradient, and differ by device."""

UNCOMPARED = {"empty.memory_format", "empty_strided", "native_dropout", "rand", "randn", "randperm"}


def core_verdicts(device: torch.device) -> dict:
    """Calls the core overloads; counts the calls and the failures of each."""
    overloads, first = Overloads(), {}
    torch.manual_seed(42)
    for name, arguments in calls().items():
        native = call_one(name, arguments, device)
        overloads.called[f"aten::{name}"] += 1
        if not native.is_native:
            overloads.failed[f"aten::{name}"] += 1
            first[f"aten::{name}"] = native.first
    return {"core": core_overloads(), "called": overloads.called, "failed": overloads.failed, "first": first}


def call_one(name: str, arguments: tuple, device: torch.device) -> Native:
    native = Native()
    packet, _, overload = name.partition(".")
    function = getattr(getattr(aten, packet), overload or "default")
    there = tree_map(lambda leaf: judge.moved(leaf, device, False), list(arguments))
    named = {"out": torch.empty(0, device=device)} if overload == "out" else {}
    named |= {"device": device} if name in MAKE else {}
    named |= {"rounding_mode": "floor"} if overload == "Scalar_mode" else {}
    on_host = {key: value if key != "out" else torch.empty(0) for key, value in named.items() if key != "device"}
    try:
        expected = function(*tree_map(judge.copied, list(arguments)), **on_host)
        with warnings.catch_warnings(), on_the_device_only(native, Watch(Overloads())):
            given = function(*there, **named)
        if name in FIRST_ONLY:
            given, expected = given[0], expected[0]
        loose = name in UNCOMPARED
        judge.compare(given, expected, (1.3e-6, 1e-5), device, False, loose)
        native.passed += 1
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        native.fail(error)
    return native
