"""The judge of compiled results: near to eager ones, and as near to float64 as those, at PyTorch's own tolerance.

The exact result is the same program's in float64, of the same inputs. Eager's error is how far its result is from that.
A compiled tensor is right if

- each element is as near to the exact one as ``torch.testing.assert_close`` asks for the dtype, or nearer than that
  plus twice the greatest error that eager has in the tensor;
- the same holds of the root mean square: precision that is lost everywhere shows there first;
- its shape, strides, dtype and device are eager's, as are all elements if they are no floats;
- elements that are not finite are eager's, or the exact ones.

So that tolerance is PyTorch's wherever eager keeps to it, and grows only with what eager itself is off by. A `Limit`
does not grow: where a check has one, results are that near to eager's, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_leaves

__all__ = ["FACTOR", "Limit", "check", "check_near", "share"]

FACTOR = 2.0
"""The most that a compiled result may be off by, in errors of the eager one."""


class Limit(NamedTuple):
    """The most that a compiled result may differ from the eager one, however far that is off itself."""

    rtol: float
    atol: float


def check(compiled: Any, eager: Any, exact: Any) -> float:
    """The greatest :func:`share` of any tensor of a result; raises an AssertionError if it is more than all."""
    worst = 0.0
    for at, (one, other, right) in enumerate(zip(*map(_tensors, (compiled, eager, exact)), strict=True)):
        _check_kind(one, other, at)
        found = share(one, other, right)
        if not found <= 1:
            raise AssertionError(f"tensor {at}, {tuple(one.shape)} of {one.dtype}: {found:.2f} times what it may be off by")
        worst = max(worst, found)
    return worst


def check_near(compiled: Any, eager: Any, limit: Limit) -> None:
    """Raises an AssertionError if a tensor of a result is farther than a limit from the eager one."""
    for at, (one, other) in enumerate(zip(*map(_tensors, (compiled, eager)), strict=True)):
        torch.testing.assert_close(
            one.detach().cpu(),
            other.detach().cpu(),
            rtol=limit.rtol,
            atol=limit.atol,
            equal_nan=True,
            msg=lambda text, at=at: f"tensor {at}, beside eager's: {text}",
        )


def share(compiled: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> float:
    """The error of a compiled tensor as a share of what it may be: right up to 1."""
    given, beside = compiled.detach().cpu(), eager.detach().cpu()
    if not given.dtype.is_floating_point and not given.dtype.is_complex:
        return 0.0 if torch.equal(given, beside) else torch.inf
    rtol, atol = default_tolerances(given.dtype)
    given, beside, right = (_wide(tensor) for tensor in (given, beside, exact.detach().cpu()))
    is_alike = _alike(given, beside) | _alike(given, right)
    is_judged = ~(is_alike & ~given.isfinite())
    given, beside, right = given[is_judged], beside[is_judged], right[is_judged]
    if given.numel() == 0:
        return 0.0
    error = (given - right).abs()
    eagers = (beside - right).abs().nan_to_num(0, 0)  # an overflow of eager's is no excuse
    tolerance = atol + rtol * right.abs()
    shares = (error / (tolerance + FACTOR * eagers.max())).max(), _rms(error) / (_rms(tolerance) + FACTOR * _rms(eagers))
    return torch.stack(shares).nan_to_num(torch.inf).max().item()


def _tensors(values: Any) -> Iterable[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _check_kind(one: torch.Tensor, other: torch.Tensor, at: int) -> None:
    for what in ("shape", "dtype", "device"):
        ours, theirs = getattr(one, what), getattr(other, what)
        assert ours == theirs, f"tensor {at}: its {what} is {ours}, and {theirs} in eager mode"
    if one.layout == torch.strided and one.numel():
        strides = ([step for step, size in zip(tensor.stride(), tensor.shape) if size > 1] for tensor in (one, other))
        ours, theirs = strides
        assert ours == theirs, f"tensor {at}: its strides are {one.stride()}, and {other.stride()} in eager mode"


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """All numbers of a tensor in one dim, in float64."""
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double().flatten()


def _alike(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _rms(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.square().mean().sqrt()
