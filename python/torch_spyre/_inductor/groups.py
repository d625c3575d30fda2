"""Groups of nodes that become one kernel, and the dims that they have in common."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy
import torch
from torch._inductor import ir
from torch._inductor.loop_body import LoopBody, MemoryUsageType
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from .index_text import Affine, affine, dim_symbol, plain
from .ir_layouts import in_order_of_memory
from .kernel_text import MOST_VIEWS, View

__all__ = ["Group", "Member"]

MOST_NODES = 24
"""The most nodes of a group."""
MOST_TRIED = 8
"""The most groups that a node may look at for one to join."""


@dataclass(frozen=True)
class Access:
    """A load or a store of a node, over the node's own variables."""

    buffer: str
    view: Affine | None
    """Strides and offset; none if the index is not affine."""


@dataclass
class Loops:
    """A node's loops, as Inductor has them before it merges and reorders them."""

    node: SchedulerNode
    body: LoopBody
    extents: dict[sympy.Symbol, sympy.Expr]
    index: list[sympy.Symbol]
    reduced: list[sympy.Symbol]
    variables: list[sympy.Expr] = field(default_factory=list)
    """The body's own variables, as expressions of those above: two that were merged are parts of one."""
    loads: list[Access] = field(default_factory=list)
    stores: list[Access] = field(default_factory=list)
    is_product: bool = False

    @classmethod
    def of(cls, node: SchedulerNode) -> Loops:
        computed = node.node
        assert isinstance(computed, ir.ComputedBuffer)
        sizes, body, variables = computed.get_default_sizes_body()
        extents = dict(zip([*variables[0], *variables[1]], [*sizes[0], *sizes[1]]))
        loops = cls(node, body, extents, list(variables[0]), list(variables[1]), list(extents))
        loops.is_product = computed.get_reduction_type() == "dot"
        searched = {entry.buffer_name for entry in body.memory_usage[MemoryUsageType.BUCKETIZE]}
        loops.loads = loops._accesses(MemoryUsageType.LOAD) + [Access(buffer, None) for buffer in sorted(searched)]
        loops.stores = loops._accesses(MemoryUsageType.STORE) + loops._accesses(MemoryUsageType.STORE_REDUCTION)
        return loops

    def _accesses(self, usage: MemoryUsageType) -> list[Access]:
        indexing = self.body.indexing_exprs
        return [
            Access(entry.buffer_name, affine(plain(indexing[entry.index_name]), self.extents))
            for entry in self.body.memory_usage[usage]
        ]

    def variants(self) -> Iterator[Loops]:
        """These loops, and those with neighbours merged that go through memory as one, the fewest first."""
        found = [self]
        while found:
            yield from found
            found = [merged for loops in found for merged in loops._merged_once()]

    def _merged_once(self) -> Iterator[Loops]:
        for outer, inner in itertools.pairwise(self.index):
            accesses = [*self.loads, *self.stores]
            if all(access.view is not None and _is_run(access.view, outer, inner, self.extents) for access in accesses):
                yield self._merged(outer, inner)

    def _merged(self, outer: sympy.Symbol, inner: sympy.Symbol) -> Loops:
        """The loops with two variables as one, which takes the name of both."""
        both = sympy.Symbol(f"{outer}_{inner}", integer=True, nonnegative=True)
        length = self.extents[inner]
        parts = {outer: FloorDiv(both, length), inner: ModularIndexing(both, 1, length)}
        extents = {
            (both if symbol == outer else symbol): (extent * length if symbol == outer else extent)
            for symbol, extent in self.extents.items()
            if symbol != inner
        }

        def merged(access: Access) -> Access:
            strides = dict(access.view.strides)
            strides.pop(outer, None)
            step = strides.pop(inner, None)
            return Access(access.buffer, Affine(strides | ({both: step} if step is not None else {}), access.view.offset))

        return replace(
            self,
            extents=extents,
            index=[both if symbol == outer else symbol for symbol in self.index if symbol != inner],
            variables=[sympy.sympify(variable).subs(parts) for variable in self.variables],
            loads=[merged(access) for access in self.loads],
            stores=[merged(access) for access in self.stores],
        )

    def narrow_sides(self, dims: Mapping[sympy.Symbol, str]) -> list[View]:
        """The sides of a product that go along no dim but those of the other."""
        sides = [access for access in self.loads if access.view is not None]
        if len(sides) != 2 or sides[0] == sides[1]:
            return []
        return [
            (side.buffer, *_renamed(side.view, dims))
            for side, other in (sides, sides[::-1])
            if side.view.strides.keys() <= other.view.strides.keys()
        ]

    @property
    def is_alone(self) -> bool:
        """Returns true if it writes to memory that others see: an argument, a part of a buffer, elements by index."""
        outputs = self.node.get_outputs()
        is_shared = any(buffer.get_mutations() or buffer.get_aliases() for buffer in outputs)
        return is_shared or any(
            store.view is None or len(store.view.strides) < len(self.index) for store in self.stores
        )

    @property
    def is_chosen(self) -> bool:
        """Returns true if the program chose the layout of what it makes: others read it as it lies there."""
        layouts = (buffer.node.get_layout() for buffer in self.node.get_outputs())
        return any(getattr(layout, "chosen", None) for layout in layouts)


def _is_run(
    view: Affine, outer: sympy.Symbol, inner: sympy.Symbol, extents: Mapping[sympy.Symbol, sympy.Expr]
) -> bool:
    """Returns true if a step of the outer one is as far as the inner one goes in all."""
    step = view.strides.get(inner)
    far = view.strides.get(outer)
    if step is None or far is None:
        return step is far
    return V.graph.sizevars.statically_known_equals(far, step * extents[inner])


@dataclass
class Member:
    """A node of a group: its body, and what its variables are in terms of the group's dims."""

    node: SchedulerNode
    body: LoopBody
    variables: list[sympy.Expr]
    dims: list[str]
    reduced: list[str]


@dataclass
class Group:
    """Nodes that become one kernel."""

    nodes: list[SchedulerNode] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    extents: dict[str, sympy.Expr] = field(default_factory=dict)
    is_closed: bool = False
    has_product: bool = False
    narrow_sides: list[View] = field(default_factory=list)
    """Views of a product's sides that have no dim of their own: of one row, or of one column."""
    _reduced: set[str] = field(default_factory=set)
    _seen: dict[str, list[tuple[dict[str, sympy.Expr], sympy.Expr]]] = field(default_factory=dict)
    """Views of buffers that its nodes load, over the group's dims."""
    _made: dict[str, tuple[dict[str, sympy.Expr], sympy.Expr]] = field(default_factory=dict)
    """Views through which its nodes store."""

    @classmethod
    def partition(cls, nodes: Sequence[SchedulerNode]) -> list[Group]:
        """Parts nodes into groups, in their order."""
        groups: list[Group] = []
        for node in nodes:
            group, loops, dims = cls._found(groups, Loops.of(node))
            if group is None:
                group = cls()
                groups.append(group)
            group._add(loops, dims)
        return groups

    @staticmethod
    def _found(groups: Sequence[Group], loops: Loops) -> tuple[Group | None, Loops, dict[sympy.Symbol, str]]:
        """The last group that a node may join: none before one that it reads from, or that others see."""
        reads = {access.buffer for access in loops.loads}
        for group in reversed(groups[-MOST_TRIED:]):
            has_common = bool(reads & (group._made.keys() | group._seen.keys()))
            for variant in loops.variants() if has_common else ():
                dims = group._dims_for(variant)
                if dims is not None:
                    return group, variant, dims
            if group.is_closed or reads & group._made.keys():
                break
        return None, loops, {}

    @property
    def device(self) -> torch.device:
        return self.nodes[0].get_device()

    def extents_in_order(self) -> dict[str, sympy.Expr]:
        """The dims as loops are to go, the outermost first: as a buffer lies in memory that is seen along most of them.

        It is one that is read, if reading is repeated. Dims of a product stay: rows, columns, and what is added up.
        """
        made = [(buffer, strides) for buffer, (strides, _) in self._made.items()]
        seen = [(buffer, strides) for buffer, views in self._seen.items() for strides, _ in views]
        views = [] if self.has_product else [*seen, *made] if self._reduced else [*made, *seen]
        buffer, widest = max(views, key=lambda view: len(view[1]), default=("", {}))
        ordered = iter(in_order_of_memory(buffer, widest))
        return {dim: self.extents[dim] for dim in (next(ordered) if dim in widest else dim for dim in self.extents)}

    def _dims_for(self, loops: Loops) -> dict[sympy.Symbol, str] | None:
        """The group's dims that a node's variables are, if the node may join."""
        if self.is_closed or loops.is_alone or loops.is_product or len(self.nodes) >= MOST_NODES:
            return None
        if loops.node.get_device() != self.device or self._is_crowded_with(loops):
            return None
        made = [access for access in loops.loads if access.buffer in self._made]
        dims: dict[sympy.Symbol, str] = {}
        for access in made:
            if not self._match(access, self._made[access.buffer], loops.extents, dims):
                return None
        for access in loops.loads:
            for view in self._seen.get(access.buffer, []):
                attempt = dict(dims)
                if self._match(access, view, loops.extents, attempt):
                    dims = attempt
                    break
        if not made and len(dims) < len(loops.extents):
            return None  # it reads nothing that the group makes, and does not read the same elements either
        if loops.reduced:
            reduced = {dims.get(variable) for variable in loops.reduced}
            if self.has_product or (self._reduced and reduced != self._reduced):
                return None
        return dims

    def _is_crowded_with(self, loops: Loops) -> bool:
        """Returns true if a kernel would have about as many operands as a program may have."""
        buffers = {*self._seen, *self._made, *(access.buffer for access in (*loops.loads, *loops.stores))}
        return len(buffers) > MOST_VIEWS

    def _match(
        self,
        access: Access,
        view: tuple[Mapping[str, sympy.Expr], sympy.Expr],
        extents: Mapping[sympy.Symbol, sympy.Expr],
        dims: dict[sympy.Symbol, str],
    ) -> bool:
        """Notes which dims an access goes along, if it is through the same view."""
        strides, offset = view
        if access.view is None or access.view.offset != offset or len(access.view.strides) != len(strides):
            return False
        for variable, stride in access.view.strides.items():
            alike = [
                dim
                for dim, other in strides.items()
                if other == stride and V.graph.sizevars.statically_known_equals(extents[variable], self.extents[dim])
            ]
            if len(alike) != 1 or dims.get(variable, alike[0]) != alike[0]:
                return False
            if any(dim == alike[0] for other, dim in dims.items() if other != variable):
                return False
            dims[variable] = alike[0]
        return True

    def _add(self, loops: Loops, dims: dict[sympy.Symbol, str]) -> None:
        for variable, extent in loops.extents.items():
            if variable not in dims:
                dims[variable] = f"d{len(self.extents)}"
                self.extents[dims[variable]] = extent
        self.nodes.append(loops.node)
        reduced = [dims[variable] for variable in loops.reduced]
        symbols = {variable: dim_symbol(dim) for variable, dim in dims.items()}
        variables = [variable.subs(symbols) for variable in loops.variables]
        along = [dims[variable] for variable in loops.index]
        self.members.append(Member(loops.node, loops.body, variables, along, reduced))
        self.is_closed |= loops.is_alone or loops.is_chosen
        self.has_product |= loops.is_product
        self._reduced |= set(reduced)
        if loops.is_product:
            self.narrow_sides = loops.narrow_sides(dims)
        for access in loops.loads:
            if access.view is not None:
                self._seen.setdefault(access.buffer, []).append(_renamed(access.view, dims))
        for access in loops.stores:
            if access.view is not None:
                self._made[access.buffer] = _renamed(access.view, dims)


def _renamed(view: Affine, dims: Mapping[sympy.Symbol, str]) -> tuple[dict[str, sympy.Expr], sympy.Expr]:
    return {dims[variable]: stride for variable, stride in view.strides.items()}, view.offset
