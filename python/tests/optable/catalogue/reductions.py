"""Operators that make one number of many, and those of whole rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..case import Case
from .pointwise import found

KIND = "reductions and rows"


def along(name: str, function, low: float = -3, high: float = 3) -> list[Case]:
    """Cases along rows, along columns, and along the middle of three dimensions."""

    def matrix(make, size):
        return [make(3, size, low=low, high=high)]

    def volume(make, size):
        return [make(2, size, 5, low=low, high=high)]

    return [
        Case(name, lambda x: function(x, 1), matrix, grows=True),
        Case(name, lambda x: function(x, 0), matrix, grows=True),
        Case(name, lambda x: function(x, 1), volume, grows=True),
    ]


def whole(name: str, function, low: float = -3, high: float = 3) -> Case:
    return Case(name, function, lambda make, size: [make(3, size, low=low, high=high)], grows=True)


def distinct(name: str, function) -> Case:
    """A case with distinct numbers: equal ones would have several right answers."""
    return Case(name, function, lambda make, size: [make.distinct(3, size)], sizes=(0, 1, 21, 63, 64, 65))


def row(name: str, function, *others: int) -> Case:
    """A function of rows, with further operands of a row's length."""

    def operands(make, size):
        return [make(3, size), *(make(size) for _ in others)]

    return Case(name, function, operands, grows=True)


def gradients(name: str, function, further: int = 0) -> Case:
    """The gradients of all operands of a function of rows."""

    def every(x, g, *others):
        inputs = [value.detach().requires_grad_() for value in (x, *others)]
        return torch.autograd.grad(function(*inputs), inputs, g)

    def operands(make, size):
        return [make(3, size), make(3, size), *(make(size) for _ in range(further))]

    return Case(name, every, operands, grows=True)


def gradients_of(function, x, *others):
    """Gradient of the first operand alone: the others are integers."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x, *others), x)


def chosen(make, size):
    """Rows of seven numbers, and one place in each."""
    return [make(size, 7), make.index(7, size)]


def norm(order: float):
    return lambda x, dim: torch.linalg.vector_norm(x, order, dim=dim)


CASES: list[Case] = [
    *(case for name in "sum nansum mean amax amin any all logsumexp".split() for case in along(name, found(name))),
    *(whole(name, found(name)) for name in "sum nansum mean amax amin any all max min var std median".split()),
    *along("prod", torch.prod, low=0.9, high=1.1),
    whole("prod", torch.prod, low=0.98, high=1.02),
    *(case for name in ("var", "std", "var_mean", "std_mean") for case in along(name, found(name))),
    *along("var", lambda x, dim: x.var(dim, correction=0, keepdim=True)),
    *(case for order in (0, 1, 2, 3, float("inf")) for case in along("vector_norm", norm(order))),
    whole("norm", torch.norm),
    *along("sum", lambda x, dim: x.sum(dim, keepdim=True, dtype=torch.float64)),
    whole("count_nonzero", torch.count_nonzero),
    *along("count_nonzero", lambda x, dim: torch.count_nonzero(x, dim)),
    *(distinct(name, lambda x, f=found(name): tuple(f(x, 1))) for name in ("max", "min", "median")),
    *(distinct(name, lambda x, f=found(name): f(x, dim)) for name in ("argmax", "argmin") for dim in (0, 1)),
    *(distinct(name, found(name)) for name in ("argmax", "argmin")),
    distinct("aminmax", lambda x: tuple(torch.aminmax(x, dim=1))),
    # Rows.
    *along("softmax", torch.softmax),
    *along("log_softmax", torch.log_softmax),
    row("layer_norm", lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), 1, 1),
    row("layer_norm", lambda x: F.layer_norm(x, x.shape[1:])),
    row("rms_norm", lambda x, w: F.rms_norm(x, x.shape[1:], w, 1e-5), 1),
    row("normalize", lambda x: F.normalize(x, dim=1)),
    row("cosine_similarity", lambda x, y: F.cosine_similarity(x, y[None]), 1),
    gradients("softmax_backward", lambda x: x.softmax(1)),
    gradients("log_softmax_backward", lambda x: x.log_softmax(1)),
    gradients("layer_norm_backward", lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), 2),
    gradients("rms_norm_backward", lambda x, w: F.rms_norm(x, x.shape[1:], w, 1e-5), 1),
    # Losses.
    Case("mse_loss", F.mse_loss, lambda make, size: [make(3, size), make(3, size)], grows=True),
    Case("l1_loss", F.l1_loss, lambda make, size: [make(3, size), make(3, size)], grows=True),
    Case("nll_loss", F.nll_loss, chosen, grows=True),
    Case("nll_loss", lambda x, at: F.nll_loss(x, at, reduction="none"), chosen),
    Case("nll_loss_backward", lambda x, at: gradients_of(F.nll_loss, x, at), chosen),
    Case("cross_entropy", F.cross_entropy, lambda make, size: [make(5, size + 1), make.index(size + 1, 5)], grows=True),
]
