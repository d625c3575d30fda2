"""Ways by which memory leaves PyTorch: DLPack, other processes, files, and storages read as the host's memory.

Addresses of the device are not the host's, and to follow one ends the process. Each way is given a copy, or
refused with the remedy.
"""

from . import dlpack, processes, storages

__all__ = ["install"]


def install() -> None:
    """Changes what PyTorch would otherwise do by address."""
    dlpack.install()
    processes.install()
    storages.install()
