"""Models of ``transformers``, tiny and with random weights made here: nothing is downloaded."""

from .exact import Exactly
from .family import FAMILIES, Family

__all__ = ["FAMILIES", "Exactly", "Family"]
