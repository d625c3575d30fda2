"""The table of composite operations, and what its files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Functions by the overload's name, such as ``"aten::trace"``."""

CPU_ONLY: frozenset[str] = frozenset()
"""Operations that PyTorch decomposes into what is further from the CPU's numbers, or into themselves."""


class Declined(NotImplementedError):
    """A function does not take what it was given: the CPU is to be asked."""


def composite(*names: str, namespace: str = "aten") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Has a function do these overloads of ``aten``, or of another package's operators."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update({f"{namespace}::{name}": function for name in names})
        return function

    return keep


def writes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Says that a function fills what it is given as ``out``."""
    function._writes = True  # type: ignore[attr-defined]
    return function


def real(*tensors: Tensor) -> None:
    """Refuses complex numbers: they have no order."""
    if any(tensor.is_complex() for tensor in tensors):
        raise Declined("complex numbers have no order")
