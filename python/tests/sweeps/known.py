"""Differences that are known, each with its reason."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch


class Known(NamedTuple):
    """Operators by name, kinds of cases, what the difference says, and why it stays."""

    names: str
    kinds: str
    says: str
    reason: str


VALUES = r"Mismatched elements|Expected .* but got"
FACTORS = (
    r"(linalg\.)?(cholesky\w*|qr|lu\w*|eig\w*|svd\w*|inv\w*|pinv|solve\w*|householder_product|lstsq|ldl\w*|det|slogdet"
    r"|matrix_\w+|tensor\w+|cond|norm|vander|multi_dot)(\..*)?|geqrf|ormqr|triangular_solve|logdet|symeig|pca_lowrank"
)
ORDERED = r"sort|argsort|msort|topk|kthvalue|mode|median|nanmedian|unique\w*"
SPECIAL = (
    r"special\..*|polygamma.*|igammac?|i0|digamma|lgamma|mvlgamma.*|nn\.functional\.gelu|nn\.functional\.layer_norm"
    r"|native_layer_norm|std|std_mean|var|var_mean|nn\.functional\.linear_cross_entropy|nn\.functional\.multilabel_.*"
)

KNOWN: tuple[Known, ...] = (
    Known(r"to_sparse.*|sparse\..*", r".*", r".*", "the device has strided tensors only"),
    Known(r"fft\..*|stft|istft", r"formats|empties|out_shapes", r"strides|against", "a product of matrices lies in rows"),
    Known(r"fft\..*|stft|istft", r"specials", VALUES, "in a product, what is not finite reaches all of its row"),
    Known(FACTORS, r"formats|out_shapes|out_views", r"strides|against", "LAPACK's results lie by columns"),
    Known(FACTORS, r"specials", r".*", "LAPACK says nothing of what is not finite"),
    Known(ORDERED, r".*", VALUES, "of equal elements any may be told"),
    Known(SPECIAL, r"specials", VALUES, "the CPU has NaN, or a finite number, where the limit is another"),
    Known(r"cdist|_upsample_bilinear2d_aa|nn\.functional\.interpolate|nn\.functional\.conv.*", r"specials", VALUES,
          "in a product, what is not finite reaches all of its row"),
    Known(r"nn\.functional\.binary_cross_entropy|bernoulli", r"specials", r"is accepted",
          "to look at the numbers first would wait for the device"),
    Known(r"resize_|resize_as_|empty.*|new_empty.*", r".*", VALUES, "memory that nobody has written"),
    Known(r"nn\.functional\.pixel_unshuffle", r"empties", r"against", "the CPU's own kernel gives nothing its first shape"),
    Known(r"arange|range|addbmm", r"out_shapes", r"against", "the CPU resizes with other words, or without any"),
    Known(r"__getitem__|index_\w+", r"formats", r"strides", "not done yet: what indices pick lies in rows"),
    Known(r"nn\.functional\.conv_transpose3d", r"formats", r"strides",
          "on the CPU, which of its kernels is taken decides whether volumes lie in rows"),
    Known(r"addr", r"in_place", r"is accepted", "the CPU asks for two dims in place only"),
    Known(r"add(mm|bmm|mv|r).*|baddbmm|masked_scatter", r"in_place|out_overlaps", VALUES,
          "the CPU reads what it has written"),
    Known(r".*", r"empties", r"raises (IndexError|RuntimeError): stream \d+, block \d+ .* against",
          "an index that is out of range is told when it is waited for, by its own name"),
    Known(r".*", r"empties", r"is accepted against (IndexError|RuntimeError): .*(out of bounds|valid range|positive)",
          "indices are looked at where they are used, and here none is"),
    Known(r"nn\.functional\.grid_sample|grid_sampler_2d|native_group_norm|native_batch_norm", r"empties", r".*",
          "the CPU refuses, or leaves out, what has nothing in it"),
)  # fmt: skip


def is_known(name: str, kind: str, label: str, dtype: torch.dtype, why: str) -> bool:
    """Whether a difference is one of the table's."""
    return any(
        re.fullmatch(known.names, name) and re.fullmatch(known.kinds, kind) and re.search(known.says, why)
        for known in KNOWN
    )
