"""``torch.distributed.tensor``: how the device's attention is sharded. PyTorch knows that of other devices' only."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

__all__ = ["change"]

aten = torch.ops.aten


def change(module: ModuleType) -> None:
    """Registers strategies of attention: whole tensors, or shards of batches or of heads."""
    from torch.distributed.tensor.placement_types import Replicate, Shard

    ways = [Replicate(), Shard(0), Shard(1)]

    def expanded(schema: Any, rows: list[list[Any]], outputs: int, is_checked: bool = False) -> Any:
        mesh = schema.get_mesh_from_args(validate=not is_checked)
        return module.expand_to_full_mesh_op_strategy(mesh, schema, rows, input_index=outputs)

    def bias_way(way: Any, bias: Any, query: Any) -> Any:
        """Placement of a mask, of which one part may serve all batches or heads."""
        dim = -1 if isinstance(way, Replicate) else way.dim - (query.ndim - bias.ndim)
        return Replicate() if dim < 0 or bias.shape[dim] != query.shape[way.dim] else Shard(dim)

    def attention(schema: Any) -> Any:
        query, bias = schema.args_schema[0], (*schema.args_schema, None, None)[3]
        rows = []
        for way in ways:
            results = [way, way, *[None] * 7]  # the output and the sums of exponentials; numbers, and no tensors
            rows.append([*results, way, way, way, *([] if bias is None else [bias_way(way, bias, query)])])
        return expanded(schema, rows, outputs=9)

    def attention_backward(schema: Any) -> Any:
        query, bias = schema.args_schema[1], schema.args_schema[4]
        rows = []
        for way in ways:
            # Shards of batches or heads each add to the gradient of a mask that they share.
            of_bias = None if bias is None else bias_way(way, bias, query)
            to_bias = module.Partial() if of_bias == Replicate() != way else of_bias
            sides = [way] * 4 if of_bias is None else [*[way] * 4, of_bias]
            rows.append([way, way, way, to_bias, *sides, way, way, Replicate(), Replicate()])
        return expanded(schema, rows, outputs=4, is_checked=True)  # by the forward

    forward_op = aten._scaled_dot_product_fused_attention_overrideable.default
    backward_op = aten._scaled_dot_product_fused_attention_overrideable_backward.default
    module.register_op_strategy(forward_op, schema_info=module.RuntimeSchemaInfo(4))(attention)
    module.register_op_strategy(backward_op)(attention_backward)
