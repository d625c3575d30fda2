"""Every collective, dtype, size and reduction against the CPU's arithmetic, bit for bit.

    python -m distributed.exactness --ranks 2 3 --sizes 1 63 64 65

starts the ranks; each of them knows what all others give, and computes what it is to get. With `--write` the table of
what was compared goes into docs/distributed.md.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from . import ranks

SIZES = (0, 1, 63, 64, 65, 1000)
DTYPES = tuple(
    getattr(torch, name)
    for name in """
        float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool complex64 float8_e4m3fn float8_e5m2
    """.split()
)
DEVICE = "spyre"
PAGE = Path(__file__).parents[3] / "docs" / "distributed.md"
MARKERS = ("<!-- exactness: begin -->\n", "<!-- exactness: end -->\n")
Op = dist.ReduceOp
Case = tuple[torch.dtype, int]


def data(rank: int, case: Case, salt: int = 0) -> torch.Tensor:
    """Small whole numbers: sums and products of them are the same in every order."""
    dtype, elements = case
    generator = torch.Generator().manual_seed(1000 * rank + 7 * salt + elements)
    numbers = torch.randint(1, 4, (elements,), generator=generator)
    if dtype == torch.bool:
        return numbers > 2
    return torch.complex(numbers.float(), -numbers.float()) if dtype.is_complex else numbers.to(dtype)


def reduced(tensors: list[torch.Tensor], op: Any) -> torch.Tensor:
    """The reduction in the order of ranks, in a dtype that is wide enough, rounded once."""
    dtype = tensors[0].dtype
    if dtype.is_complex:
        return torch.view_as_complex(reduced([torch.view_as_real(tensor) for tensor in tensors], op))
    if dtype == torch.bool:
        by_op = {Op.SUM: "any", Op.MAX: "any", Op.BOR: "any", Op.PRODUCT: "all", Op.MIN: "all", Op.BAND: "all"}
        return getattr(torch.stack(tensors), by_op[op])(0)
    wide = torch.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype
    total = tensors[0].to(wide)
    steps = {
        Op.SUM: torch.add, Op.AVG: torch.add, Op.PRODUCT: torch.mul, Op.MIN: torch.minimum, Op.MAX: torch.maximum,
        Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor,
    }  # fmt: skip
    for tensor in tensors[1:]:
        total = steps[op](total, tensor.to(wide))
    if op == Op.AVG:
        is_whole = not dtype.is_floating_point
        total = torch.div(total, len(tensors), rounding_mode="trunc") if is_whole else total / len(tensors)
    return total.to(dtype)


def operations(dtype: torch.dtype) -> list[Any]:
    """The reductions that a dtype has."""
    if dtype.is_complex:
        return [Op.SUM, Op.AVG]
    if dtype == torch.bool:
        return [Op.SUM, Op.PRODUCT, Op.MAX, Op.MIN]
    both = [Op.SUM, Op.AVG, Op.PRODUCT, Op.MIN, Op.MAX]
    return both if dtype.is_floating_point else [*both, Op.BAND, Op.BOR, Op.BXOR]


Pairs = Iterator[tuple[str, torch.Tensor, torch.Tensor]]


class Cases:
    """Calls of one rank for a case, with the results that it is to get."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def all(self, case: Case, salt: int = 0) -> list[torch.Tensor]:
        return [data(rank, case, salt) for rank in range(self.size)]

    def own(self, case: Case, salt: int = 0) -> torch.Tensor:
        return data(self.rank, case, salt).to(DEVICE)

    def empty(self, case: Case, pieces: int = 1) -> torch.Tensor:
        return torch.zeros(case[1] * pieces, dtype=case[0], device=DEVICE)

    def all_reduce(self, case: Case) -> Pairs:
        for op in operations(case[0]):
            tensor = self.own(case)
            dist.all_reduce(tensor, op)
            yield str(op), tensor, reduced(self.all(case), op)

    def reduce(self, case: Case) -> Pairs:
        for root in {0, self.size - 1}:
            tensor = self.own(case)
            dist.reduce(tensor, root)
            want = reduced(self.all(case), Op.SUM) if root == self.rank else self.own(case).cpu()
            yield f"to {root}", tensor, want

    def broadcast(self, case: Case) -> Pairs:
        for root in {0, self.size - 1}:
            tensor = self.own(case)
            dist.broadcast(tensor, root)
            yield f"from {root}", tensor, data(root, case)

    def all_gather(self, case: Case) -> Pairs:
        outputs = [self.empty(case) for _ in range(self.size)]
        dist.all_gather(outputs, self.own(case))
        for rank, (got, want) in enumerate(zip(outputs, self.all(case), strict=True)):
            yield f"of {rank}", got, want

    def all_gather_into_tensor(self, case: Case) -> Pairs:
        output = self.empty(case, self.size)
        dist.all_gather_into_tensor(output, self.own(case))
        yield "", output, torch.cat(self.all(case))

    def gather(self, case: Case) -> Pairs:
        root = self.size - 1
        outputs = [self.empty(case) for _ in range(self.size)] if self.rank == root else None
        dist.gather(self.own(case), outputs, dst=root)
        for rank, got in enumerate(outputs or []):
            yield f"of {rank}", got, data(rank, case)

    def scatter(self, case: Case) -> Pairs:
        inputs = [data(to, case, 5).to(DEVICE) for to in range(self.size)] if self.rank == 0 else None
        output = self.empty(case)
        dist.scatter(output, inputs, src=0)
        yield "", output, data(self.rank, case, 5)

    def reduce_scatter(self, case: Case) -> Pairs:
        inputs = [self.own(case, to) for to in range(self.size)]
        output = self.empty(case)
        dist.reduce_scatter(output, inputs)
        yield "", output, reduced(self.all(case, self.rank), Op.SUM)

    def reduce_scatter_tensor(self, case: Case) -> Pairs:
        for op in operations(case[0])[:2]:
            whole = torch.cat([data(self.rank, case, to) for to in range(self.size)]).to(DEVICE)
            output = self.empty(case)
            dist.reduce_scatter_tensor(output, whole, op)
            yield str(op), output, reduced(self.all(case, self.rank), op)

    def all_to_all(self, case: Case) -> Pairs:
        inputs = [self.own(case, to) for to in range(self.size)]
        outputs = [self.empty(case) for _ in range(self.size)]
        dist.all_to_all(outputs, inputs)
        for rank, got in enumerate(outputs):
            yield f"of {rank}", got, data(rank, case, self.rank)

    def all_to_all_single(self, case: Case) -> Pairs:
        whole = torch.cat([data(self.rank, case, to) for to in range(self.size)]).to(DEVICE)
        output = self.empty(case, self.size)
        dist.all_to_all_single(output, whole)
        yield "", output, torch.cat([data(rank, case, self.rank) for rank in range(self.size)])

    def uneven_all_to_all_single(self, case: Case) -> Pairs:
        dtype, elements = case
        counts = [[elements + 3 * source + to for to in range(self.size)] for source in range(self.size)]
        pieces = [[data(s, (dtype, counts[s][t]), t) for t in range(self.size)] for s in range(self.size)]
        taken = [counts[source][self.rank] for source in range(self.size)]
        output = torch.zeros(sum(taken), dtype=dtype, device=DEVICE)
        whole = torch.cat(pieces[self.rank]).to(DEVICE)
        dist.all_to_all_single(output, whole, taken, counts[self.rank])
        yield "", output, torch.cat([pieces[source][self.rank] for source in range(self.size)])

    def send_recv(self, case: Case) -> Pairs:
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        if self.size == 1 or case[1] == 0:
            return
        output = self.empty(case)
        ops = [dist.P2POp(dist.isend, self.own(case), after), dist.P2POp(dist.irecv, output, before)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        yield "", output, data(before, case)


NAMES = [name for name in vars(Cases) if name not in ("all", "own", "empty") and not name.startswith("_")]


def differences(name: str, dtypes: list[torch.dtype], sizes: list[int]) -> tuple[int, list[str]]:
    """Number of results of a collective that were compared on this rank, and those that differ."""
    check: Callable[[Case], Pairs] = getattr(Cases(dist.get_rank(), dist.get_world_size()), name)
    count, wrong = 0, []
    for dtype, elements in itertools.product(dtypes, sizes):
        for detail, got, want in check((dtype, elements)):
            count += 1
            host = got.cpu()
            if host.dtype != want.dtype or not torch.equal(_bits(host), _bits(want)):
                wrong.append(f"{name} {detail} {dtype} {elements}: {host.flatten()[:4]} is not {want.flatten()[:4]}")
    return count, wrong


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).contiguous().view(torch.uint8)


def _rank(arguments: argparse.Namespace) -> None:
    ranks.join(seconds=120)
    dtypes = [getattr(torch, name) for name in arguments.dtypes]
    total, wrong = 0, []
    for name in arguments.collectives:
        count, different = differences(name, dtypes, arguments.sizes)
        print(f"{name}: {count}, {len(different)}")
        total += count
        wrong += different
    print(f"{total} results, {len(wrong)} differences")
    print(*wrong[:20], sep="\n")
    dist.destroy_process_group()
    sys.exit(1 if wrong else 0)


def table(arguments: argparse.Namespace, outputs: dict[int, str]) -> str:
    """The table of what was compared, by collective and number of ranks."""
    heads = [f"{size} rank{'s' if size > 1 else ''}" for size in outputs]
    lines = [f"| collective | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name in [*arguments.collectives, "all"]:
        cells = []
        for output in outputs.values():
            found = re.search(r"^(\d+) results, (\d+)" if name == "all" else rf"^{name}: (\d+), (\d+)", output, re.M)
            cells.append(found[1] if found[2] == "0" else f"{found[1]}, {found[2]} differ")
        lines.append(f"| {name if name == 'all' else f'`{name}`'} | {' | '.join(cells)} |")
    dtypes, sizes = (", ".join(map(str, values)) for values in (arguments.dtypes, arguments.sizes))
    return "\n".join([f"Dtypes: {dtypes}. Elements of a tensor, or of each piece: {sizes}.", "", *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4, 8])
    parser.add_argument("--sizes", type=int, nargs="+", default=[0, 1, 63, 64, 65, 10**6 + 1])
    parser.add_argument("--dtypes", nargs="+", default=names, choices=names)
    parser.add_argument("--collectives", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--write", action="store_true", help="put the table into docs/distributed.md")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        _rank(arguments)
    outputs = {}
    for size in arguments.ranks:
        outputs[size] = ranks.run("exactness", size, *sys.argv[1:], seconds=3600)[0]
        print(f"{size} ranks: {outputs[size].strip().splitlines()[-1]}", flush=True)
    text = table(arguments, outputs)
    print(text)
    if arguments.write:
        page = PAGE.read_text()
        start, end = (page.index(marker) for marker in MARKERS)
        PAGE.write_text(page[: start + len(MARKERS[0])] + text + page[end:])


if __name__ == "__main__":
    main()
