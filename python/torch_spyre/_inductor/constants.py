"""Numbers of a real card: those of :mod:`torch_spyre.constants`."""

from ..constants import *  # noqa: F403
