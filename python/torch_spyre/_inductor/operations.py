"""Scalar operations of Inductor's loop bodies, as words of a kernel's text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler, promote_types

from .errors import Unsupported
from .kernel_text import KernelText
from .values import Value, is_narrow, lane_of, literal

__all__ = ["Operations"]


def _pairs(text: str) -> dict[str, str]:
    """Names and words: a word that is spelled like its name is left out."""
    return {name: word or name for name, _, word in (pair.partition(":") for pair in text.split())}


_CALLS = _pairs("""
    abs exp exp2 expm1 sqrt rsqrt reciprocal log log2 log10 log1p sin cos tan tanh asin acos atan sinh cosh asinh acosh
    atanh erf erfc erfinv erfcx lgamma digamma sigmoid relu floor ceil round trunc neg airy_ai ndtri log_ndtr bessel_j0
    bessel_j1 bessel_y0 bessel_y1 atan2 hypot zeta igamma igammac pow i0:bessel_i0 i0e:bessel_i0e i1:bessel_i1
    i1e:bessel_i1e modified_bessel_i0:bessel_i0 modified_bessel_i1:bessel_i1 modified_bessel_k0:bessel_k0
    modified_bessel_k1:bessel_k1 scaled_modified_bessel_k0:bessel_k0e scaled_modified_bessel_k1:bessel_k1e
    gammainc:igamma gammaincc:igammac minimum:min maximum:max copysign:copy_sign fmod:rem mod:rem
    chebyshev_polynomial_t:chebyshev_t chebyshev_polynomial_u:chebyshev_u chebyshev_polynomial_v:chebyshev_v
    chebyshev_polynomial_w:chebyshev_w legendre_polynomial_p:legendre_p hermite_polynomial_h:hermite_h
    hermite_polynomial_he:hermite_he laguerre_polynomial_l:laguerre_l
""")
"""Functions of one or two values, by Inductor's name."""
_SIGNS = _pairs("""
    add:+ sub:- mul:* mul_rn:* truediv:/ div_rn:/ truncdiv:/ floordiv:// remainder:% bitwise_and:& bitwise_or:|
    bitwise_xor:^ bitwise_left_shift:<< bitwise_right_shift:>> lshift:<< rshift:>> and_:& or_:| xor:^
""")
_TEXTS = {
    "square": "{0} * {0}",
    "fma": "{0} * {1} + {2}",
    "ldexp": "{0} * exp2({1})",
    "ndtr": f"0.5{{lane}} * erfc({{0}} * {-math.sqrt(0.5)!r}{{lane}})",
    "spherical_bessel_j0": "where({0} == 0.0{lane}, 1.0{lane}, sin({0}) / {0})",
}
"""Functions that are written out."""
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LOGIC = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}
_TESTS = {"isnan": "is_nan", "isinf": "is_inf", "signbit": "sign_bit"}
_WRAPPING = frozenset("add sub mul square fma neg abs bitwise_not bitwise_left_shift lshift pow".split())
"""Operations whose results may be outside of a narrow integer's range."""
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float32}
"""Dtypes of Python's numbers; a bool is an int, too."""
_WHOLE_AS_IT_IS = frozenset("floor ceil round trunc".split())


class Operations:
    """Writes the lines of a kernel, operation by operation."""

    def __init__(self, kernel: KernelText) -> None:
        self.kernel = kernel
        self._dtypes = DtypePropagationOpsHandler()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name.endswith("_to_int"):
            return lambda x, dtype: self.to_dtype(self._operation(name.removesuffix("_to_int"), x), dtype)
        return lambda *args, **named: self._operation(name, *args)

    def _operation(self, name: str, *args: Any) -> Value:
        values = [self._value_of(arg) for arg in args]
        if name.startswith("shifted_"):
            x, n = values
            shifted = self.kernel.value(f"{x} * 2.0{x.lane} - 1.0{x.lane}", x.dtype, x)
            return self._operation(name.removeprefix("shifted_"), shifted, n)
        if name in _COMPARISONS:
            return self._compare(_COMPARISONS[name], *values)
        if name in _LOGIC:
            left, right = (value.in_lane("bool") for value in values)
            return self.kernel.value(f"{left} {_LOGIC[name]} {right}", torch.bool, *values, is_rounded=True)
        if name in _TESTS:
            return self._test(_TESTS[name], *values)
        if name not in _SIGNS and name not in _CALLS and name not in _TEXTS:
            raise Unsupported(f"Inductor's operation {name!r} has no word in kernels")
        dtype = self._result_dtype(name, values)
        if name in _WHOLE_AS_IT_IS and lane_of(dtype) in ("i64", "bool"):
            return values[0]
        sides = [value.in_lane(lane_of(dtype)) for value in values]
        if name in _TEXTS:
            text = _TEXTS[name].format(*sides, lane=lane_of(dtype))
        elif name in _SIGNS:
            text = f"{sides[0]} {_SIGNS[name]} {sides[1]}"
        else:
            text = f"{_CALLS[name]}({', '.join(sides)})"
        made = self._wrapped(name, self.kernel.value(text, dtype, *values))
        return self._round(made) if config.emulate_precision_casts else made

    def _result_dtype(self, name: str, values: list[Value]) -> torch.dtype:
        dtype = getattr(self._dtypes, name)(*values) if hasattr(self._dtypes, name) else promote_types(values)
        # A 16-bit number stays one: Inductor's rules name the dtype that it is computed in.
        floats = [value.dtype for value in values if value.dtype.is_floating_point]
        return floats[0] if dtype == torch.float32 and len(set(floats)) == 1 else dtype

    def _wrapped(self, name: str, value: Value) -> Value:
        """The value in the range of its dtype, where an integer could have left it."""
        if name in _WRAPPING and lane_of(value.dtype) == "i64" and is_narrow(value.dtype):
            return self._round(value)
        return value

    def _round(self, value: Value) -> Value:
        if value.is_rounded or not is_narrow(value.dtype):
            return value
        dtype = str(value.dtype).removeprefix("torch.")
        return self.kernel.value(f"round<{dtype}>({value})", value.dtype, value, is_rounded=True)

    def _value_of(self, arg: Any) -> Value:
        if isinstance(arg, Value):
            return arg
        for kind, dtype in _DTYPES.items():
            if isinstance(arg, kind):
                return literal(arg, dtype)
        raise Unsupported(f"a {type(arg).__name__} among the values of a kernel")

    def _compare(self, sign: str, left: Value, right: Value) -> Value:
        lane = lane_of(promote_types([left, right]))
        text = f"{left.in_lane(lane)} {sign} {right.in_lane(lane)}"
        return self.kernel.value(text, torch.bool, left, right, is_rounded=True)

    def _test(self, word: str, value: Value) -> Value:
        if not value.dtype.is_floating_point:
            negative = word == "sign_bit" and value.lane == "i64"
            return self._compare("<", value, literal(0, value.dtype)) if negative else literal(False, torch.bool)
        return self.kernel.value(f"{word}({value})", torch.bool, value, is_rounded=True)

    # What follows is named as Inductor names it.

    def constant(self, value: bool | float | int, dtype: torch.dtype) -> Value:
        return literal(value, dtype)

    def identity(self, x: Value) -> Value:
        return x

    def where(self, condition: Value, yes: Value, no: Value) -> Value:
        yes, no = self._value_of(yes), self._value_of(no)
        dtype = yes.dtype if yes.dtype == no.dtype else promote_types([yes, no])
        lane = lane_of(dtype)
        text = f"where({condition.in_lane('bool')}, {yes.in_lane(lane)}, {no.in_lane(lane)})"
        return self.kernel.value(text, dtype, condition, yes, no, is_rounded=yes.is_rounded and no.is_rounded)

    def to_dtype(
        self, x: Value, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> Value:
        x = self._value_of(x)
        if x.dtype == dtype:
            return self._round(x)
        if x.is_rounded and lane_of(dtype) == x.lane and not is_narrow(dtype):
            return Value(x.text, dtype, x.dims, is_rounded=True)
        if lane_of(dtype) == x.lane:
            source = self._round(x) if config.emulate_precision_casts else x
            return self._round(Value(source.text, dtype, x.dims, is_rounded=not is_narrow(dtype)))
        converted = self.kernel.value(x.in_lane(lane_of(dtype)), dtype, x, is_rounded=not is_narrow(dtype))
        return self._round(converted)

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1; NaN is neither more nor less than zero."""
        if x.lane == "bool":
            return x
        zero = literal(0, x.dtype)
        return self.kernel.value(f"{x.lane}({x} > {zero}) - {x.lane}({x} < {zero})", x.dtype, x, is_rounded=True)

    def logical_not(self, x: Value) -> Value:
        return self.kernel.value(f"!{x.in_lane('bool')}", torch.bool, x, is_rounded=True)

    def bitwise_not(self, x: Value) -> Value:
        if x.lane == "bool":
            return self.logical_not(x)
        return self._wrapped("bitwise_not", self.kernel.value(f"~{x}", x.dtype, x))

    def int_truediv(self, x: Value, y: Value) -> Value:
        quotient = f"f64({x}) / f64({y})"
        return self.kernel.value(f"f32({quotient})", torch.float32, x, y, is_rounded=True)

    def nextafter(self, x: Value, y: Value) -> Value:
        if is_narrow(x.dtype):
            raise Unsupported(f"nextafter of {x.dtype}")
        return self.kernel.value(f"next_after({x}, {y})", x.dtype, x, y)

    def frexp(self, x: Value) -> tuple[Value, Value]:
        mantissa = self.kernel.value(f"frexp_mantissa({x})", x.dtype, x)
        exponent = self.kernel.value(f"i64(frexp_exponent({x}))", torch.int32, x, is_rounded=True)
        return mantissa, exponent

    def polygamma(self, n: Value, x: Value) -> Value:
        """A derivative of digamma, by Hurwitz's zeta function."""
        dtype = promote_types([n, x])
        dtype = dtype if dtype.is_floating_point else torch.float32
        lane = lane_of(dtype)
        order, at = n.in_lane(lane), x.in_lane(lane)
        sign = f"where({order} % 2.0{lane} == 0.0{lane}, (-1.0{lane}), 1.0{lane})"
        further = f"{sign} * exp(lgamma({order} + 1.0{lane})) * zeta({order} + 1.0{lane}, {at})"
        return self.kernel.value(f"where({order} == 0.0{lane}, digamma({at}), {further})", dtype, n, x)

    def rand(self, seed: Value, offset: Value) -> Value:
        """A number from 0 on, below 1: 24 bits."""
        bits = self._random(seed, offset, 0)
        return self.kernel.value(f"f32({bits} >> 8i64) * {2**-24!r}f32", torch.float32, bits, is_rounded=True)

    def randn(self, seed: Value, offset: Value) -> Value:
        """A number of the normal distribution, by Box and Muller."""
        above_zero = self._random(seed, offset, 0)
        angle = self._random(seed, offset, 1)
        radius = f"sqrt(-2.0f32 * log(f32(({above_zero} >> 8i64) + 1i64) * {2**-24!r}f32))"
        turn = f"cos(f32({angle} >> 8i64) * {2 * math.pi * 2**-24!r}f32)"
        return self.kernel.value(f"{radius} * {turn}", torch.float32, above_zero, angle, is_rounded=True)

    def randint64(self, seed: Value, offset: Value, low: Value, high: Value) -> Value:
        first = self._random(seed, offset, 0)
        second = self._random(seed, offset, 1)
        bits = f"((({first} & 2147483647i64) << 32i64) | {second})"
        return self.kernel.value(f"{low} + {bits} % ({high} - {low})", torch.int64, first, second, low, high)

    def _random(self, seed: Value, offset: Value, word: int) -> Value:
        index = offset.in_lane("i64")
        return self.kernel.value(f"random({seed.in_lane('i64')}, 0i64, {index}, {word})", torch.int64, seed, offset)

    def output(self, *args: Any) -> None:
        pass
