"""Index expressions of Inductor: as views of a buffer, and as text of kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import sympy
import torch
from torch.utils._sympy import functions
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from .._C import _is_kernel_function
from .errors import Unsupported
from .values import literal

__all__ = ["Affine", "affine", "bounds", "dim_symbol", "is_multiple", "plain", "text_of"]


@dataclass(frozen=True)
class Affine:
    """An index that is an offset and a stride for each of some variables."""

    strides: Mapping[sympy.Symbol, sympy.Expr]
    offset: sympy.Expr


def dim_symbol(dim: str) -> sympy.Symbol:
    """The symbol that stands for a place along a dim of a kernel."""
    return sympy.Symbol(dim, integer=True, nonnegative=True)


def plain(index: sympy.Expr) -> sympy.Expr:
    """The index without the marks that keep Inductor from simplifying it."""
    index = sympy.sympify(index)
    if index.has(functions.Identity):
        index = index.replace(functions.Identity, lambda inner: inner)
    return sympy.expand(index)


def affine(index: sympy.Expr, variables: Iterable[sympy.Symbol]) -> Affine | None:
    """The index as a view, if it has strides of 1 or more along variables, and nothing else depends on them."""
    strides = {}
    offset = index
    among = set(variables)
    for variable in sorted(among & index.free_symbols, key=str):
        stride = index.coeff(variable)
        if stride == 0 or stride.free_symbols & among or not _is_positive(stride):
            return None
        strides[variable] = stride
        offset = sympy.expand(offset - stride * variable)
    return None if offset.free_symbols & among else Affine(strides, offset)


def _is_positive(stride: sympy.Expr) -> bool:
    return bool(stride.is_positive) or bool(stride.is_integer and bound_sympy(stride).lower >= 1)


def bounds(index: sympy.Expr, extents: Mapping[sympy.Symbol, sympy.Expr]) -> ValueRanges:
    """The least and the greatest value of an index, as far as the extents are numbers."""
    ranges = {
        symbol: ValueRanges(0, max(int(extent) - 1, 0))
        for symbol, extent in extents.items()
        if isinstance(extent, (int, sympy.Integer))
    }
    return bound_sympy(index, ranges)


def is_multiple(term: sympy.Expr, stride: sympy.Expr) -> sympy.Expr | None:
    """The term divided by a stride, if that is a whole number whatever its symbols are."""
    if stride == 1:
        return term
    coefficient, rest = term.as_coeff_Mul()
    if isinstance(stride, (int, sympy.Integer)):
        return rest * (coefficient // stride) if coefficient % stride == 0 else None
    quotient = sympy.cancel(term / stride)
    return quotient if sympy.denom(quotient) == 1 else None


def text_of(expression: sympy.Expr, name: Callable[[sympy.Symbol], str]) -> str:
    """The expression as an integer of a kernel; `name` says what its symbols are called there."""
    spell = _Speller(name)
    return spell(sympy.sympify(expression))


class _Speller:
    def __init__(self, name: Callable[[sympy.Symbol], str]) -> None:
        self._name = name

    def __call__(self, expression: sympy.Expr) -> str:
        if isinstance(expression, sympy.Symbol):
            return self._name(expression)
        if isinstance(expression, sympy.Integer):
            return literal(int(expression), torch.int64).text
        if isinstance(expression, (sympy.Float, sympy.Rational)):
            return literal(float(expression), torch.float64).text
        if isinstance(expression, sympy.Pow) and expression.args[1].is_Integer and expression.args[1] > 0:
            return f"({' * '.join([self(expression.args[0])] * int(expression.args[1]))})"
        first, *rest = map(self, expression.args)
        function = type(expression).__name__
        if function in _SIGNS:
            return f"({f' {_SIGNS[function]} '.join([first, *rest])})"
        if function.startswith(_OPAQUE):
            return f"{function.removeprefix(_OPAQUE)}(f64({first}))"
        if not _is_kernel_function(function):
            raise Unsupported(f"an index with {function}: {expression}")
        if function in ("Min", "Max"):
            return functools.reduce(lambda left, right: f"{function}({left}, {right})", rest, first)
        return f"{function}({', '.join([first, *rest])})"


_SIGNS = {"Add": "+", "Mul": "*", "And": "&", "Or": "|"}
"""Signs between any number of values. Other kinds of expressions are functions, which the compiler knows by name."""
_OPAQUE = "OpaqueUnaryFn_"
