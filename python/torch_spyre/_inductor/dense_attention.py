"""flex_attention in graphs: products, a softmax, and score and mask functions as loops of kernels.

A graph has it as one node, with its functions as graphs of scalars. On the device it becomes PyTorch's own dense form, in
which all scores are computed, those of blocks that a mask leaves out among them.
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
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["make_dense"]

aten = torch.ops.aten
_FORMS: dict[Any, Callable[..., Any]] = {
    flex_attention: sdpa_dense,
    flex_attention_backward: sdpa_dense_backward,
}


def make_dense(gm: torch.fx.GraphModule) -> None:
    """Puts the dense form in the place of all attention of a graph on the device."""
    for operator, form in _FORMS.items():
        for node in gm.graph.find_nodes(op="call_function", target=operator):
            if node.args[0].meta["val"].device.type == "spyre":
                _replace(gm, node, form)


def _replace(gm: torch.fx.GraphModule, node: torch.fx.Node, form: Callable[..., Any]) -> None:
    arguments, spec = tree_flatten((node.args, node.kwargs))
    given = [at for at, argument in enumerate(arguments) if _is_value(argument)]
    mode = torch._guards.detect_fake_mode([arguments[at].meta["val"] for at in given])
    wanted = _differentiated(node)
    values = [_copy_of(arguments[at], arguments[at] in wanted) for at in given]
    functions = {
        at: getattr(gm, argument.target)
        for at, argument in enumerate(arguments)
        if isinstance(argument, torch.fx.Node) and at not in given
    }

    def run(*values: Any) -> Any:
        filled = [functions.get(at, argument) for at, argument in enumerate(arguments)]
        for at, value in zip(given, values):
            filled[at] = value
        args, named = tree_unflatten(filled, spec)
        return form(*args, **named)

    with mode, torch.no_grad():
        traced = make_fx(run, select_decomp_table())(*values)
    for write in traced.graph.find_nodes(op="call_function", target=aten.copy_.default):
        write.target = aten.copy.default
        write.args[0].replace_all_uses_with(write, lambda user, write=write: user is not write)
    for constant in traced.graph.find_nodes(op="get_attr"):
        name = f"{node.name}_{constant.target}"
        setattr(gm, name, getattr(traced, constant.target))
        constant.target = name
    places = dict(zip(traced.graph.find_nodes(op="placeholder"), (arguments[at] for at in given)))
    with gm.graph.inserting_before(node):
        results = gm.graph.graph_copy(traced.graph, places)
    _give(node, results)


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


def _give(node: torch.fx.Node, results: Any) -> None:
    """Puts results in the place of a node, which is one of them or a tuple of them."""
    if isinstance(results, torch.fx.Node):
        node.replace_all_uses_with(results)
    else:
        for part in list(node.users):
            _give(part, results[part.args[1]])
    node.graph.erase_node(node)


def _is_value(argument: Any) -> bool:
    return isinstance(argument, torch.fx.Node) and isinstance(argument.meta.get("val"), (torch.Tensor, torch.SymInt))
