"""Errors of compilation."""

__all__ = ["Unsupported"]


class Unsupported(RuntimeError):
    """A part of a graph that has no form on the device; the message names it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"Spyre backend does not support: {what}")
