"""Names of dims, for hints: those of :mod:`torch_spyre.named_dims`."""

from ..named_dims import declare_tensor_dim, name_tensor_dims, reset

__all__ = ["declare_tensor_dim", "name_tensor_dims", "reset"]
