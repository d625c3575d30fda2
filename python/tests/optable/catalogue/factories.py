"""Operators that fill tensors: with a number, with steps, at random; and the steps of optimisers."""

from __future__ import annotations

import torch

from ..case import Case

KIND = "making, random and optimisers"


def matrix(make, size):
    return [make(3, size)]


def made(name: str, function) -> Case:
    """Made like the operand, on its device."""
    return Case(name, lambda x: function(x, {"dtype": x.dtype, "device": x.device}), matrix)


def drawn(name: str, function) -> Case:
    """In-place, on a tensor like the operand: the numbers are of the right kind, and again the same for a seed."""

    def twice(x):
        torch.manual_seed(3)
        first = function(x.clone())
        torch.manual_seed(3)
        second = function(x.clone())
        return first, (first == second).all() | first.isnan().any()

    return Case(name, twice, matrix, random=True)


def step(optimiser, **options):
    """Two steps of an optimiser, and the parameter after them."""

    def stepped(x, g):
        parameter = torch.nn.Parameter(x.clone())
        optimise = optimiser([parameter], lr=0.1, fused=True, **options)
        for _ in range(2):
            parameter.grad = g.clone()
            optimise.step()
        return parameter.detach()

    return stepped


def optimised(name: str, function) -> Case:
    return Case(name, function, lambda make, size: [make(3, size), make(3, size)], sizes=(1, 65, 4000), grows=True)


CASES: list[Case] = [
    made("zeros_like", lambda x, _: torch.zeros_like(x)),
    made("ones_like", lambda x, _: torch.ones_like(x)),
    made("full_like", lambda x, _: torch.full_like(x, 3)),
    made("fill_", lambda x, _: x.clone().fill_(2)),
    made("zero_", lambda x, _: x.clone().zero_()),
    made("zeros", lambda x, as_x: torch.zeros(x.shape, **as_x)),
    made("ones", lambda x, as_x: torch.ones(x.shape, **as_x)),
    made("full", lambda x, as_x: torch.full(x.shape, 1, **as_x)),
    made("arange", lambda x, as_x: torch.arange(x.shape[1], **as_x)),
    made("arange", lambda x, as_x: torch.arange(2, 2 + 3 * (x.shape[1] % 30), 3, **as_x)),
    made("linspace", lambda x, as_x: torch.linspace(0, 100, x.shape[1], **as_x)),
    made("logspace", lambda x, as_x: torch.logspace(0, 1.5, x.shape[1], **as_x)),
    made("eye", lambda x, as_x: torch.eye(3, x.shape[1], **as_x)),
    made("tril_indices", lambda x, _: torch.tril_indices(3, x.shape[1], device=x.device)),
    drawn("uniform_", lambda x: x.uniform_(1, 2)),
    drawn("normal_", lambda x: x.normal_(1, 2)),
    drawn("log_normal_", lambda x: x.log_normal_()),
    drawn("cauchy_", lambda x: x.cauchy_()),
    drawn("exponential_", lambda x: x.exponential_()),
    drawn("geometric_", lambda x: x.geometric_(0.5)),
    drawn("bernoulli_", lambda x: x.bernoulli_(0.3)),
    drawn("random_", lambda x: x.random_(0, 100)),
    drawn("random_", lambda x: x.random_()),
    drawn("rand_like", lambda x: torch.rand_like(x)),
    drawn("randn_like", lambda x: torch.randn_like(x)),
    drawn("randint_like", lambda x: torch.randint_like(x, 100)),
    drawn("dropout", lambda x: torch.dropout(x, 0.5, True)),
    Case("randperm", lambda x: torch.randperm(x.shape[1], dtype=x.dtype, device=x.device).sort()[0], matrix,
         sizes=(0, 1, 63, 64, 65, 127)),
    Case("bernoulli", lambda x: torch.bernoulli(x), lambda make, size: [make(3, size, low=0, high=1)], random=True),
    Case("multinomial", lambda x: torch.multinomial(x, 5, True), lambda make, size: [make(3, size, low=0.1, high=1)],
         random=True, sizes=(1, 63, 65, 4000), reads=True),
    optimised("fused adam", step(torch.optim.Adam, weight_decay=0.1)),
    optimised("fused adamw", step(torch.optim.AdamW, amsgrad=True)),
    optimised("fused sgd", step(torch.optim.SGD, momentum=0.9, nesterov=True)),
    optimised("fused adagrad", step(torch.optim.Adagrad)),
]  # fmt: skip
