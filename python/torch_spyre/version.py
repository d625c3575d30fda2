"""The version of this package: that of its wheel, of the extension and of the ``spyre`` command."""

from ._C import __version__

__all__ = ["__version__"]
