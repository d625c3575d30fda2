"""The table of operators and dtypes: that of :mod:`torch_spyre.ops.dtype_table`."""

from ..ops.dtype_table import DtypeOpTable, Support

__all__ = ["DtypeOpTable", "Support"]
