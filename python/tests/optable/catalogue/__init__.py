"""The cases of every operator, by kind."""

from __future__ import annotations

from ..case import Case
from . import factories, images, indexing, ordering, pointwise, products, reductions

LISTS = (pointwise, reductions, products, indexing, ordering, factories, images)


def catalogue() -> dict[str, list[Case]]:
    """All cases, by the name of their operator."""
    named: dict[str, list[Case]] = {}
    for case in (case for cases in LISTS for case in cases.CASES):
        named.setdefault(case.name, []).append(case)
    return named


def kinds() -> dict[str, list[str]]:
    """The names of each kind, in their order."""
    return {part.KIND: list(dict.fromkeys(case.name for case in part.CASES)) for part in LISTS}
