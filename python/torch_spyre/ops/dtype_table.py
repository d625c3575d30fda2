"""The table of operators and dtypes: how the device carries out each operator in each dtype.

    table = DtypeOpTable()
    table.support("aten::exp", torch.float16)  # Support.NATIVE

It is read from the registry that docs/operators.md is printed from, from PyTorch's dispatcher, and from the formats of the
profile. It says which way is tried first: kernels decline some calls, for their arguments, and the next way takes these.
docs/op-table.md has what was measured, and `torch.spyre.card_reports` what a card would make of the kernels that ran.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import torch
from torch._ops import OpOverload

from .. import _C
from .decompositions import _functional, _known, _named, _signature, _written
from .fallbacks import Op

__all__ = ["DtypeOpTable", "Support"]

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32,
    torch.complex64, torch.complex128,
)  # fmt: skip
"""Dtypes of the table."""


class Support(enum.Enum):
    """Ways in which the device carries out an operator, the best first."""

    NATIVE = "native"
    """Kernels of the device, or a view of its memory."""
    DECOMPOSED = "decomposed"
    """Other operators."""
    HOST = "host"
    """The CPU's kernel, on copies."""
    REFUSED = "refused"
    """None: the device has no format for the dtype, or PyTorch no kernel for the operator."""


class DtypeOpTable:
    """Operators by dtypes. An operator is an overload, or its name in full: ``"aten::add.Tensor"``, ``"exp"``."""

    def __init__(self) -> None:
        self._ways = {_qualified(name): ways for name, ways in _C.operators()}
        self._known: dict[OpOverload, Support] = {}

    @property
    def operators(self) -> list[str]:
        """Names of the operators that have a row in the registry. Others can be asked for, too."""
        return sorted(self._ways)

    @property
    def dtypes(self) -> list[torch.dtype]:
        """Dtypes of the columns."""
        return list(DTYPES)

    def support(self, op: Op, dtype: torch.dtype) -> Support:
        """Returns the way in which the device first tries to carry out an operator on tensors of a dtype."""
        overload = _overload(op)
        if _C.get_device_dtype(dtype) is _C.DataFormats.INVALID:
            return Support.REFUSED
        if overload not in self._known:
            self._known[overload] = self._way(overload)
        return self._known[overload]

    def is_supported(self, op: Op, dtype: torch.dtype) -> bool:
        """Returns True if the device carries it out without the CPU."""
        return self.support(op, dtype) in (Support.NATIVE, Support.DECOMPOSED)

    def row(self, op: Op) -> dict[torch.dtype, Support]:
        """An operator's ways, by dtype."""
        return {dtype: self.support(op, dtype) for dtype in DTYPES}

    def __iter__(self) -> Iterator[tuple[str, dict[torch.dtype, Support]]]:
        return ((name, self.row(name)) for name in self.operators if _named(name) is not None)

    def _way(self, overload: OpOverload) -> Support:
        ways = [way for form in _forms(overload) for way in self._ways.get(form.name(), ())]
        if "native" in ways or _has_kernel(overload, "PrivateUse1"):
            return Support.NATIVE
        composites = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
        if ways or any(_has_kernel(overload, key) for key in composites) or any(map(_known, _forms(overload))):
            return Support.DECOMPOSED
        is_on_the_host = torch._C._dispatch_has_computed_kernel_for_dispatch_key(overload.name(), "CPU")
        return Support.HOST if is_on_the_host else Support.REFUSED


def _overload(op: Op) -> OpOverload:
    if isinstance(op, OpOverload):
        return op
    overload = _named(_qualified(op)) if isinstance(op, str) else getattr(op, op.overloads()[0])
    if overload is None:
        raise ValueError(f"there is no operation {op!r}")
    return overload


def _qualified(name: str) -> str:
    return name if "::" in name else f"aten::{name}"


def _has_kernel(overload: OpOverload, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key)


def _forms(overload: OpOverload) -> list[OpOverload]:
    """The overload, and those that compute the same: anew, in place and into ``out=``. One kernel does all of them."""
    functional = _functional(overload) or overload
    namespace, _, rest = functional.name().partition("::")
    base = rest.partition(".")[0]
    packets = (getattr(getattr(torch.ops, namespace), name, None) for name in (base, f"{base}_"))
    others = (getattr(packet, name) for packet in packets if packet is not None for name in packet.overloads())
    wanted = _signature(functional)
    alike = [other for other in others if _written(other) and _signature(other) == wanted]
    return list(dict.fromkeys([overload, functional, *alike]))
