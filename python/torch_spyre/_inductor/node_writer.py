"""The loop body of a scheduler node, written into a kernel: loads, stores, reductions and coordinates."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from contextlib import nullcontext
from typing import Any

import sympy
import torch
from torch._inductor import config
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.virtualized import OpsValue, V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .errors import Unsupported
from .groups import Member
from .index_text import affine, bounds, dim_symbol, is_multiple, plain, text_of
from .kernel_text import KernelText
from .operations import Operations
from .orders import Combine, bisected, scanned, sorted_along
from .values import Value, is_narrow, lane_of, literal

__all__ = ["NodeWriter"]

_REDUCTIONS = {"sum": "sum", "dot": "sum", "prod": "product", "max": "max", "min": "min", "any": "any"}
_TAKES_INDICES = re.compile("index|gather|scatter|take|embedding|nll_loss|put|select")
_STORES = {None: "=", "atomic_add": "+="}


class _Unwrapped:
    """Passes operations on to a writer, with values as the writer made them."""

    def __init__(self, writer: NodeWriter) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._writer, name)
        return lambda *args, **named: operation(*map(_unwrap, args), **named)


def _unwrap(arg: Any) -> Any:
    if isinstance(arg, OpsValue):
        return arg.value
    return tuple(map(_unwrap, arg)) if isinstance(arg, tuple) else arg


class NodeWriter(Operations):
    """Writes nodes into one kernel. Values that one node stores are values to the nodes after it."""

    def __init__(self, kernel: KernelText, is_kept: Callable[[str], bool]) -> None:
        super().__init__(kernel)
        self._is_kept = is_kept
        self._stored: dict[str, Value] = {}
        self._indirect: dict[sympy.Symbol, tuple[Value, sympy.Expr]] = {}
        self._unchecked: set[sympy.Symbol] = set()
        """Those of them that may be out of range."""
        self._reduced: list[str] = []
        self._operator = ""
        self._checks: dict[Value, None] = {}
        self._mask: Value | None = None
        self._symbols: dict[sympy.Symbol, str] = {}
        self._whole_dims: dict[tuple[str, int, sympy.Expr], str] = {}

    def write(self, member: Member) -> None:
        """Writes a node of a group."""
        self._reduced = member.reduced
        self._operator = _indexing_operator(member.node)
        self._checks = {}
        self._symbols = {dim_symbol(dim): dim for dim in [*member.dims, *member.reduced]}
        with V.set_ops_handler(_Unwrapped(self)), V.set_kernel_handler(nullcontext()):
            member.body(member.variables, allow_same_symbol_in_index=True)

    # Named as Inductor names them, from here on.

    def load(self, name: str, index: sympy.Expr) -> Value:
        if name in self._stored:
            return self._stored[name]
        dtype = V.graph.get_dtype(name)
        text, dims = self._access(name, dtype, self._index(index), "in")
        return Value(text, dtype, dims, is_rounded=True)

    def load_seed(self, name: str, offset: int) -> Value:
        return self.load(name, sympy.Integer(offset))

    def store(self, name: str, index: sympy.Expr, value: Value, mode: str | None = None) -> None:
        if mode not in _STORES:
            raise Unsupported(f"a store with mode {mode!r}")
        dtype = V.graph.get_dtype(name)
        value = self._fitted(value, dtype)
        is_kept = self._is_kept(name)
        if mode is None:
            # What memory will hold is what later nodes see; what is never stored stays as precise as it is.
            value = self._round(value) if is_kept or config.emulate_precision_casts else value
            self._stored[name] = value
        if not is_kept:
            return
        target = V.graph.scheduler.mutation_real_name.get(name, name)
        role = "out" if mode is None else "inout"
        text, dims = self._access(target, dtype, self._index(index), role)
        value = self._checked(value)
        if mode is None:
            value = self._last_of(value, value.dims - dims)
        self.kernel.lines.append(f"{text} {_STORES[mode]} {value}")

    def _last_of(self, value: Value, dims: Set[str]) -> Value:
        """The value at the last place along dims: of several that go to one element, one is stored."""
        if not dims:
            return value
        along = sorted(dims)
        is_last = " & ".join(f"({dim} == {self._extent(dim)} - 1i64)" for dim in along)
        nothing = literal(0, value.dtype)
        word = "any" if value.lane == "bool" else "sum"
        last = self.kernel.value(f"where({is_last}, {value}, {nothing})", value.dtype, value)
        return self.kernel.over(word, along, last, value.dtype, is_rounded=value.is_rounded)

    def device_assert_async(self, condition: Value, message: str) -> Value:
        dim = self.kernel.add_dim(sympy.S.One, "n")
        self.kernel.assertions[self._check(dim, f"i64(!{condition.in_lane('bool')})", condition)] = message
        return condition

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if lower or upper:
            self._check_index(self.index_expr(expr, torch.int64), sympy.sympify(size))

    def _check_index(self, index: Value, size: sympy.Expr) -> None:
        """Has the card compare an index with a size, which no access to a tensor does in its stead."""
        at = index if self._mask is None else self.where(self._mask, index, literal(0, torch.int64))
        self._note(self._check(self._whole_dim("", -1, size), at.text, at))

    def _note(self, operand: str) -> None:
        """Notes whose indices go into an operand."""
        if self._operator:
            self.kernel.operators[operand] = self._operator

    def _check(self, dim: str, at: str, *sources: Value) -> str:
        """Reads an element at a place, for nothing but the fault if there is none. Gives the name of the operand."""
        operand = self.kernel.repeated(dim)
        found = self.kernel.value(f"{operand.name}[{at}]", operand.dtype, *sources)
        self._checks[self.kernel.value(f"{found} == {found}", torch.bool, found)] = None
        return operand.name

    def _checked(self, value: Value) -> Value:
        """The value, after what the node checks."""
        for check in self._checks:
            text = f"where({check}, {value}, {value})"
            value = self.kernel.value(text, value.dtype, value, check, is_rounded=value.is_rounded)
        return value

    store_reduction = store

    def _fitted(self, value: Any, dtype: torch.dtype) -> Value:
        """The value in the lane of a buffer, whose dtype it takes."""
        value = self._value_of(value)
        is_rounded = value.is_rounded and value.dtype == dtype
        if value.lane == lane_of(dtype):
            return Value(value.text, dtype, value.dims, is_rounded)
        return self.kernel.value(value.in_lane(lane_of(dtype)), dtype, value, is_rounded=not is_narrow(dtype))

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        if reduction_type == "welford_reduce":
            return self._welford(value)
        if reduction_type in ("argmax", "argmin"):
            return self._seek(reduction_type, value)
        if reduction_type not in _REDUCTIONS:
            raise Unsupported(f"a reduction of type {reduction_type!r}")
        word = _REDUCTIONS[reduction_type]
        value = self._value_of(value)
        lane = "bool" if word == "any" else lane_of(dtype)
        source = Value(value.in_lane(lane), dtype, value.dims)
        return self._reduce(word, source)

    def _reduce(self, word: str, value: Value) -> Value:
        """The reduction over all reduced dims; along those that the value does not differ, it is repeated."""
        along = [dim for dim in self._reduced if dim in value.dims]
        for dim in self._reduced:
            if dim not in value.dims and word in ("sum", "product"):
                count = f"{value.lane}({self._extent(dim)})"
                text = f"{value} * {count}" if word == "sum" else f"pow({value}, {count})"
                value = self.kernel.value(text, value.dtype, value)
        return self.kernel.over(word, along, value, value.dtype) if along else value

    def _extent(self, dim: str) -> str:
        return text_of(self.kernel.extents[dim], self._name)

    def _welford(self, value: Value) -> tuple[Value, Value, Value]:
        """The mean, the sum of squared distances from it, and how many there are."""
        value = self.to_dtype(value, torch.float64 if value.lane == "f64" else torch.float32)
        lane = value.lane
        count = " * ".join(f"{lane}({self._extent(dim)})" for dim in self._reduced)
        weight = self.kernel.value(count, value.dtype)
        mean = self.truediv(self._reduce("sum", value), weight)
        distance = self.sub(value, mean)
        return mean, self._reduce("sum", self.mul(distance, distance)), weight

    def _seek(self, word: str, value: Value) -> Value:
        """The first place of an extreme, counted through all reduced dims."""
        if not value.dims & set(self._reduced):
            return literal(0, torch.int64)
        source = value if value.lane != "bool" else self.to_dtype(value, torch.int64)
        return self.kernel.over(word, self._reduced, source, torch.int64, is_rounded=True)

    def scan(self, dtypes: Any, combine: Combine, values: tuple[Value, ...]) -> tuple[Value, ...]:
        (dim,) = self._reduced
        return tuple(self._wrapped("add", value) for value in scanned(self.kernel, dim, combine, values))

    def sort(
        self, dtypes: Any, values: tuple[Value, Value], stable: bool, descending: bool
    ) -> tuple[Value, Value]:
        (dim,) = self._reduced
        return sorted_along(self.kernel, dim, *values, is_descending=descending)

    def bucketize(
        self, values: Value, boundaries: Any, boundary_indices: Any, indexing_dtype: torch.dtype, right: bool,
        sorter: Any = None, sorter_indices: Any = None,
    ) -> Value:  # fmt: skip
        name, count, _, stride = boundaries

        def element(at: Value) -> Value:
            if sorter is not None:
                at = self._element(sorter[0], sorter_indices, at, sorter[1])
            return self._element(name, boundary_indices, at, stride)

        is_after = ">" if right else ">="
        found = bisected(self.kernel, self._value_of(values), int(count), element, is_after=is_after)
        return self.to_dtype(found, indexing_dtype)

    def _element(self, buffer: str, first: Any, at: Value, stride: sympy.Expr) -> Value:
        """The element of a buffer that is so many strides behind one."""
        step = self.mul(at, self.index_expr(stride, torch.int64))
        place = self.add(self.to_dtype(first, torch.int64), step)
        length = V.graph.get_buffer(buffer).get_layout().storage_size()
        return self.load(buffer, self.indirect_indexing(place, length, check=False, wrap_neg=False))

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        expr = sympy.sympify(expr)
        if expr.is_number:
            return literal(float(expr) if dtype.is_floating_point else int(expr), dtype)
        is_float = bool(expr.is_integer is False) or any(
            symbol_is_type(symbol, SymT.FLOAT) for symbol in expr.free_symbols
        )
        source = Value(text_of(expr, self._name), torch.float64 if is_float else torch.int64, self._dims_of(expr))
        named = self.kernel.value(source.text, source.dtype, source, is_rounded=True) if expr.args else source
        return self.to_dtype(named, dtype)

    value_expr = index_expr

    def indirect_indexing(self, x: Value, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        x = self._value_of(x)
        size = sympy.sympify(size)
        index = x.in_lane("i64")
        if wrap_neg:  # one that is out of range stays as it was given, for the message
            length = text_of(size, self._name)
            is_wrapped = f"({index} < 0i64) & ({index} >= -{length})"
            x = self.kernel.value(f"where({is_wrapped}, {index} + {length}, {index})", torch.int64, x)
        elif x.lane != "i64":
            x = self.kernel.value(index, torch.int64, x)
        symbol = sympy.Symbol(f"indirect_{len(self._indirect)}", integer=True, nonnegative=True)
        self._indirect[symbol] = (x, size)
        if check:
            self._unchecked.add(symbol)
        return symbol

    def masked(self, mask: Value, body: Callable[[], Any], other: Any) -> Value:
        outer = self._mask
        self._mask = mask if outer is None else self.logical_and(outer, mask)
        try:
            inner = self._value_of(body())
        finally:
            self._mask = outer
        return self.where(mask, inner, self.constant(other, inner.dtype))

    # Where a view lies in its buffer.

    def _index(self, index: sympy.Expr) -> sympy.Expr:
        """The index in terms of the kernel's dims: parts of one that add up to it are it."""
        index = plain(index)
        if index.has(ModularIndexing, FloorDiv):
            index = plain(V.graph.sizevars.simplify_with_ranges(index, self._extents()))
        return index

    def _access(self, buffer: str, dtype: torch.dtype, index: sympy.Expr, role: str) -> tuple[str, frozenset[str]]:
        """The element at an index of a buffer: text of it, and the dims along which it differs."""
        view = None if index.free_symbols & self._indirect.keys() else affine(index, self._symbols)
        is_crowded = role == "in" and self.kernel.is_crowded
        if view is not None and not is_crowded and self._is_inside(buffer, index):
            along = {self._symbols[symbol]: stride for symbol, stride in view.strides.items()}
            strides = {dim: along[dim] for dim in self.kernel.extents if dim in along}
            operand = self.kernel.operand(buffer, dtype, strides, view.offset, role)
            return operand.name, frozenset(operand.dims)
        role = "inout" if role == "out" else role
        axes = None if self._mask is not None else self._coordinates(buffer, index)
        compared = self._compared(buffer, axes or [index])
        for symbol in sorted(index.free_symbols & self._unchecked - compared, key=str):
            self._check_index(*self._indirect[symbol])
        self._unchecked -= index.free_symbols
        if axes is None:
            size = V.graph.get_buffer(buffer).get_layout().storage_size()
            strides = {self._whole_dim(buffer, -1, size): sympy.S.One}
            axes = [index]
        else:
            layout = V.graph.get_buffer(buffer).get_layout()
            strides = {
                self._whole_dim(buffer, at, size): stride
                for at, (size, stride) in enumerate(zip(layout.size, layout.stride))
            }
        operand = self.kernel.operand(buffer, dtype, strides, sympy.S.Zero, role)
        text = f"{operand.name}[{', '.join(text_of(axis, self._name) for axis in axes)}]"
        if compared:
            self._note(operand.name)
        if self._mask is not None and role == "in":
            otherwise = {"bool": "false", "i64": "0i64"}.get(lane_of(dtype), f"0.0{lane_of(dtype)}")
            text = f"({text} else {otherwise})"
        return text, self._dims_of(index)

    def _compared(self, buffer: str, axes: list[sympy.Expr]) -> set[sympy.Symbol]:
        """The indices that the card itself compares with their sizes: each is a coordinate of a dim that is as long."""
        layout = V.graph.get_buffer(buffer).get_layout()
        sizes = layout.size if len(axes) == len(layout.size) else [layout.storage_size()]
        is_same = V.graph.sizevars.statically_known_equals
        alike = {axis for axis, size in zip(axes, sizes) if axis in self._indirect and is_same(self._indirect[axis][1], size)}
        return alike if self._mask is None else set()

    def _whole_dim(self, buffer: str, at: int, size: sympy.Expr) -> str:
        """A dim of a whole buffer, which nothing loops over."""
        key = (buffer, at, size)
        if key not in self._whole_dims:
            self._whole_dims[key] = self.kernel.add_dim(size, "n")
        return self._whole_dims[key]

    def _extents(self) -> dict[sympy.Symbol, sympy.Expr]:
        extents = {symbol: self.kernel.extents[dim] for symbol, dim in self._symbols.items()}
        return extents | {symbol: size for symbol, (_, size) in self._indirect.items()}

    def _is_inside(self, buffer: str, index: sympy.Expr) -> bool:
        """Returns true if an index is in its buffer wherever the mask is; without one, it is, if all checks pass."""
        if self._mask is None and not self._checks:
            return True
        size = V.graph.get_buffer(buffer).get_layout().storage_size()
        found = bounds(index, self._extents())
        if self._mask is None:
            return not V.graph.sizevars.statically_known_leq(size, found.upper)
        return bool(found.lower >= 0) and V.graph.sizevars.statically_known_lt(found.upper, size)

    def _coordinates(self, buffer: str, index: sympy.Expr) -> list[sympy.Expr] | None:
        """The index as coordinates of the buffer's dims, if each is known to be within its dim."""
        layout = V.graph.get_buffer(buffer).get_layout()
        sizevars = V.graph.sizevars
        if len(layout.size) < 2 or len(set(layout.stride)) < len(layout.stride) or 0 in layout.stride:
            return None
        order = sorted(range(len(layout.stride)), key=lambda at: -sizevars.optimization_hint(layout.stride[at]))
        axes = [sympy.S.Zero] * len(order)
        for term in sympy.Add.make_args(index):
            for at in order:
                quotient = is_multiple(term, layout.stride[at])
                if quotient is not None:
                    axes[at] += quotient
                    break
            else:
                return None
        extents = self._extents()
        is_within = all(self._is_within(axis, size, extents) for axis, size in zip(axes, layout.size))
        return axes if is_within else None

    def _is_within(self, axis: sympy.Expr, size: sympy.Expr, extents: dict[sympy.Symbol, sympy.Expr]) -> bool:
        if axis in extents:
            return V.graph.sizevars.statically_known_leq(extents[axis], size)
        found = bounds(axis, extents)
        return bool(found.lower >= 0) and V.graph.sizevars.statically_known_lt(found.upper, size)

    def _dims_of(self, index: sympy.Expr) -> frozenset[str]:
        dims = frozenset(self._symbols[symbol] for symbol in index.free_symbols if symbol in self._symbols)
        values = (self._indirect[symbol][0] for symbol in index.free_symbols if symbol in self._indirect)
        return dims.union(*(value.dims for value in values))

    def _name(self, symbol: sympy.Symbol) -> str:
        if symbol in self._symbols:
            return self._symbols[symbol]
        if symbol in self._indirect:
            return self._indirect[symbol][0].text
        return self.kernel.scalar(symbol)


def _indexing_operator(node: SchedulerNode) -> str:
    """The operators of a node that take indices."""
    names = {str(origin.meta.get("original_aten", "")) for origin in node.node.get_origins()}
    packets = {".".join(name.split(".")[:2]) for name in names}
    return " or ".join(sorted(name for name in packets if _TAKES_INDICES.search(name)))
