"""Scalar operations of Inductor's loop bodies, as words of a kernel's text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler, promote_types

from .._C import _is_kernel_function
from .errors import Unsupported
from .kernel_text import KernelText
from .values import Value, is_narrow, lane_of, literal

__all__ = ["Operations"]


_SIGNS = dict(pair.split(":") for pair in """
    add:+ sub:- mul:* mul_rn:* truediv:/ div_rn:/ truncdiv:/ floordiv:// remainder:% bitwise_and:& bitwise_or:|
    bitwise_xor:^ bitwise_left_shift:<< bitwise_right_shift:>> lshift:<< rshift:>> and_:& or_:| xor:^
""".split())
"""Operations that are signs between two values. The others are functions, which the compiler knows by Inductor's names."""
_RANDOM = {"rand": torch.float32, "randn": torch.float32, "randint64": torch.int64}
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
        if name in _RANDOM:
            text = f"{name}({', '.join(value.in_lane('i64') for value in values)})"
            return self.kernel.value(text, _RANDOM[name], *values, is_rounded=True)
        if name in _COMPARISONS:
            return self._compare(_COMPARISONS[name], *values)
        if name in _LOGIC:
            left, right = (value.in_lane("bool") for value in values)
            return self.kernel.value(f"{left} {_LOGIC[name]} {right}", torch.bool, *values, is_rounded=True)
        if name in _TESTS:
            return self._test(_TESTS[name], *values)
        if name not in _SIGNS and not _is_kernel_function(name):
            raise Unsupported(f"Inductor's operation {name!r} has no word in kernels")
        dtype = self._result_dtype(name, values)
        if name in _WHOLE_AS_IT_IS and lane_of(dtype) in ("i64", "bool"):
            return values[0]
        sides = [value.in_lane(lane_of(dtype)) for value in values]
        text = f" {_SIGNS[name]} ".join(sides) if name in _SIGNS else f"{name}({', '.join(sides)})"
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

    def output(self, *args: Any) -> None:
        pass
