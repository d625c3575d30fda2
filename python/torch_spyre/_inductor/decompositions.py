"""Operators that the device does as others, by overload: a copy, of :mod:`torch_spyre.ops.decompositions`."""

from ..ops.decompositions import decompositions_by_overload

spyre_decompositions = decompositions_by_overload()
