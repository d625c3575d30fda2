"""A kernel that is being written: its dims, its operands, its scalars and its lines.

An operand is a *view* of a buffer: dims with strides, and an offset. Broadcasting, transposes, slices and strides that
are known at launch only need no text, so one text serves all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch

from .values import Value

__all__ = ["MOST_VIEWS", "KernelText", "Operand", "View"]

View = tuple[str, dict[str, sympy.Expr], sympy.Expr]
"""A buffer, a stride for each dim along which it is seen, and an offset."""


MOST_VIEWS = 16
"""Views of buffers in a kernel: more are coordinates of whole buffers. A program has 32 operands at most, and what it
keeps in memory for want of registers is among them."""


@dataclass
class Operand:
    """A view of a buffer that a kernel reads or writes."""

    name: str
    buffer: str
    dtype: torch.dtype
    dims: tuple[str, ...]
    sizes: tuple[sympy.Expr, ...]
    strides: tuple[sympy.Expr, ...]
    offset: sympy.Expr
    role: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}: {str(self.dtype).removeprefix('torch.')}[{', '.join(self.dims)}]"


@dataclass
class KernelText:
    """A kernel, line by line."""

    extents: dict[str, sympy.Expr] = field(default_factory=dict)
    """The dims, and how long they are."""
    operands: list[Operand] = field(default_factory=list)
    scalars: dict[sympy.Symbol, str] = field(default_factory=dict)
    """Symbols whose numbers a launch is given, and their names in the kernel."""
    lines: list[str] = field(default_factory=list)
    operators: dict[str, str] = field(default_factory=dict)
    """The operators of the graph whose indices the card checks, by the operand that they go into."""
    assertions: dict[str, str] = field(default_factory=dict)
    """Texts of assertions, by the operand that is out of reach if one is not true."""
    _known: dict[str, Value] = field(default_factory=dict)

    def add_dim(self, extent: sympy.Expr, prefix: str = "d") -> str:
        """A dim of its own."""
        name = f"{prefix}{len(self.extents)}"
        self.extents[name] = extent
        return name

    def operand(
        self, buffer: str, dtype: torch.dtype, strides: Mapping[str, sympy.Expr], offset: sympy.Expr, role: str
    ) -> Operand:
        """The operand for a view; one that is read and written is both."""
        dims = tuple(strides)
        for known in self.operands:
            if (known.buffer, known.dims, known.strides) == (buffer, dims, tuple(strides.values())) and (
                known.offset == offset
            ):
                known.role = known.role if known.role == role else "inout"
                return known
        sizes = tuple(self.extents[dim] for dim in dims)
        name = f"x{len(self.operands)}"
        made = Operand(name, buffer, dtype, dims, sizes, tuple(strides.values()), offset, role)
        self.operands.append(made)
        return made

    def scalar(self, symbol: sympy.Symbol) -> str:
        """The name of a number that is known at launch."""
        return self.scalars.setdefault(symbol, f"s_{symbol}")

    def value(self, text: str, dtype: torch.dtype, *sources: Value, is_rounded: bool = False) -> Value:
        """A value with a line of its own; what is computed alike is one value."""
        dims = frozenset[str]().union(*(source.dims for source in sources))
        key = f"{text}: {dtype}"
        if key not in self._known:
            name = f"t{len(self._known)}"
            self.lines.append(f"{name} = {text}")
            self._known[key] = Value(name, dtype, dims, is_rounded)
        return self._known[key]

    def over(
        self, word: str, dims: Collection[str], value: Value, dtype: torch.dtype, *, is_rounded: bool = False
    ) -> Value:
        """A value that is made of another over dims: one for all places along them."""
        made = self.value(f"{word}<{', '.join(dims)}>({value})", dtype, value, is_rounded=is_rounded)
        return Value(made.text, dtype, made.dims - set(dims), is_rounded)

    @property
    def is_crowded(self) -> bool:
        """True if it has about as many operands as a program may have."""
        return len(self.operands) >= MOST_VIEWS

    def expressions(self) -> list[sympy.Expr]:
        """All that a launch works out: sizes, strides and offsets of operands, and scalars."""
        views = [part for operand in self.operands for part in (*operand.sizes, *operand.strides, operand.offset)]
        return [sympy.sympify(part) for part in (*views, *self.scalars)]

    def cover_dims(self) -> None:
        """Has every dim in an operand, which says at launch how long it is."""
        covered = {dim for operand in self.operands for dim in operand.dims}
        for dim in [dim for dim in self.extents if dim not in covered]:
            self.repeated(dim)

    def repeated(self, dim: str) -> Operand:
        """An operand whose elements all are the first of something that is read, or of a tensor without a name."""
        source = next((operand for operand in self.operands if operand.role == "in"), None)
        buffer, dtype = ("", torch.uint8) if source is None else (source.buffer, source.dtype)
        return self.operand(buffer, dtype, {dim: sympy.S.Zero}, sympy.S.Zero, "in")

    def widen(self, view: View) -> None:
        """Gives a view a dim of one element, and all that is made: each side of a product has a dim of its own.

        It is the first one, so that a product goes through its other side once.
        """
        dim = self.add_dim(sympy.S.One)
        self.extents = {dim: self.extents.pop(dim), **self.extents}
        for operand in self.operands:
            seen = (operand.buffer, dict(zip(operand.dims, operand.strides)), operand.offset)
            if operand.role != "in" or seen == view:
                operand.dims = (dim, *operand.dims)
                operand.sizes = (sympy.S.One, *operand.sizes)
                operand.strides = (sympy.S.Zero, *operand.strides)

    def text(self, name: str, scalar_lanes: Sequence[tuple[str, str]]) -> str:
        """The whole kernel."""
        lines = [f"kernel {name}({', '.join(self.extents)}) {{"]
        lines += [f"    {operand}" for operand in self.operands]
        lines += [f"    scalar {scalar}: {lane}" for scalar, lane in scalar_lanes]
        lines += [f"    {line}" for line in self.lines]
        return "\n".join([*lines, "}", ""])
