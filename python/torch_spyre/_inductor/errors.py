"""What a graph may have that this device cannot compile."""

__all__ = ["Unsupported"]


class Unsupported(RuntimeError):
    """A part of a graph that has no form on the device; the message names it."""
