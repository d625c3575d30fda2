"""Index expressions of Inductor: as views of a buffer, and as text of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import sympy
import torch
from torch.utils._sympy import functions
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

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
        if isinstance(expression, functions.RoundDecimal):
            value, digits = expression.args
            scale = literal(10.0 ** int(digits), torch.float64)
            return f"(round(f64({self(value)}) * {scale}) / {scale})"
        opaque = type(expression).__name__.partition("OpaqueUnaryFn_")[2]
        if opaque:
            return f"{opaque}(f64({self(expression.args[0])}))"
        for kind, write in _WRITERS:
            if isinstance(expression, kind):
                return write(*map(self, expression.args))
        if isinstance(expression, sympy.Pow) and expression.args[1].is_Integer and expression.args[1] > 0:
            return "(" + " * ".join([self(expression.args[0])] * int(expression.args[1])) + ")"
        raise Unsupported(f"an index with {type(expression).__name__}: {expression}")


def _join(sign: str) -> Callable[..., str]:
    return lambda *parts: "(" + f" {sign} ".join(parts) + ")"


def _nest(function: str) -> Callable[..., str]:
    def write(first: str, *rest: str) -> str:
        return f"{function}({first}, {write(*rest)})" if rest else first

    return write


_RELATIONS = {"Eq": "==", "Ne": "!=", "Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">=", "And": "&", "Or": "|"}
_WRITERS: list[tuple[type | tuple[type, ...], Callable[..., str]]] = [
    (sympy.Add, _join("+")),
    (sympy.Mul, _join("*")),
    (functions.ModularIndexing, lambda value, divisor, modulus: f"(({value} // {divisor}) % {modulus})"),
    ((functions.FloorDiv, functions.CleanDiv), _join("//")),
    (functions.CeilDiv, lambda value, divisor: f"(({value} + {divisor} - 1i64) // {divisor})"),
    ((functions.Mod, functions.PythonMod), _join("%")),
    (functions.PowByNatural, lambda base, exponent: f"pow({base}, {exponent})"),
    ((functions.Min, sympy.Min), _nest("min")),
    ((functions.Max, sympy.Max), _nest("max")),
    (functions.Identity, lambda inner: inner),
    (functions.ToFloat, lambda value: f"f64({value})"),
    (functions.IntTrueDiv, lambda left, right: f"(f64({left}) / f64({right}))"),
    (functions.FloatTrueDiv, _join("/")),
    (functions.TruncToInt, lambda value: f"i64(trunc({value}))"),
    (functions.FloorToInt, lambda value: f"i64(floor({value}))"),
    (functions.CeilToInt, lambda value: f"i64(ceil({value}))"),
    (functions.RoundToInt, lambda value: f"i64(round({value}))"),
    (functions.Where, lambda condition, yes, no: f"where({condition}, {yes}, {no})"),
    (sympy.Abs, lambda value: f"abs({value})"),
    *((getattr(sympy, name), _join(sign)) for name, sign in _RELATIONS.items()),
    (sympy.Not, lambda value: f"!{value}"),
]
"""The first kind that an expression is of, and how its arguments are put together."""
