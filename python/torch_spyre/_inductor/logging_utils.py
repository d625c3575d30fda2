"""Loggers of the compilation of graphs: those of :mod:`torch_spyre.inductor_logging`."""

from ..inductor_logging import *  # noqa: F403
from ..inductor_logging import _needs_reinit  # noqa: F401
