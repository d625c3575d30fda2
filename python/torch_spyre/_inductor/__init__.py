"""torch.compile on the device: kernels for the graphs that Inductor lowers.

- :mod:`torch_spyre.integrations.inductor` makes these files known to Inductor, when it is imported;
- :mod:`scheduling` gathers the nodes of a graph, :mod:`groups` parts them into kernels;
- :mod:`node_writer` and :mod:`operations` write a kernel's text, :mod:`index_text` its indices;
- :mod:`ir_layouts` has the layouts of buffers in device memory;
- :mod:`wrapper` writes the Python module of a graph, whose kernels :mod:`launch` compiles and launches.
"""

from typing import Any

__all__ = ["get_op_hints", "spyre_hint"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .. import hints

    return getattr(hints, name)
