"""flex_attention in graphs: products, a softmax, and score and mask functions as loops of kernels.

A graph has it as one node, with its functions as graphs of scalars. On the device it is lowered as PyTorch's own dense
form, in which all scores are computed, those of blocks that a mask leaves out among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    flex_attention_backward,
    sdpa_dense,
    sdpa_dense_backward,
)
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import process_subgraph_nodes
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["DENSE_FORMS", "lower_densely"]

aten = torch.ops.aten
DENSE_FORMS: dict[Any, Callable[..., Any]] = {
    flex_attention: sdpa_dense,
    flex_attention_backward: sdpa_dense_backward,
}


def lower_densely(*_: Any) -> Any:
    """Lowers the dense form in the place of a graph's attention."""
    graph, node = V.graph, V.graph.current_node
    arguments, spec = tree_flatten((node.args, node.kwargs))
    given = [at for at, argument in enumerate(arguments) if _is_value(argument)]
    wanted = _differentiated(node)
    values = [_copy_of(arguments[at], arguments[at] in wanted) for at in given]
    functions = {
        at: getattr(graph.module, argument.target)
        for at, argument in enumerate(arguments)
        if isinstance(argument, torch.fx.Node) and at not in given
    }

    def run(*values: Any) -> Any:
        filled = [functions.get(at, argument) for at, argument in enumerate(arguments)]
        for at, value in zip(given, values):
            filled[at] = value
        args, named = tree_unflatten(filled, spec)
        return DENSE_FORMS[node.target](*args, **named)

    with V.fake_mode, torch.no_grad():
        traced = make_fx(run, select_decomp_table())(*values)
    for write in traced.graph.find_nodes(op="call_function", target=aten.copy_.default):
        write.target = aten.copy.default
        write.args[0].replace_all_uses_with(write, lambda user, write=write: user is not write)
    for constant in traced.graph.find_nodes(op="get_attr"):
        name = f"{node.name}_{constant.target}"
        setattr(graph.module, name, getattr(traced, constant.target))
        constant.target = name
    return process_subgraph_nodes(traced, [graph.env[arguments[at]] for at in given])


def _differentiated(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The captured tensors whose gradients a backward node gives."""
    if node.target is flex_attention:
        return set()
    gradients = node.meta["val"][3]
    return {buffer for buffer, gradient in zip(node.args[12], gradients) if isinstance(gradient, torch.Tensor)}


def _copy_of(node: torch.fx.Node, is_differentiated: bool) -> Any:
    """The value of a node, which says if it has a gradient."""
    value = node.meta["val"]
    return value.detach().requires_grad_() if is_differentiated else value


def _is_value(argument: Any) -> bool:
    return isinstance(argument, torch.fx.Node) and isinstance(argument.meta.get("val"), (torch.Tensor, torch.SymInt))
