"""Gradients of compiled kernels: a kernel has one if it was compiled with ``backward=``.

What computes it, be it a kernel or a function, is given by name what it asks for: the operands and scalars of the
kernel under their own names, and the gradient of an output ``y`` as ``grad_y``. A kernel has outputs ``grad_x`` for
the inputs ``x`` that have a gradient; a function returns one gradient for each input, in their order, and ``None``
for those that have none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .kernels import Kernel

Backward = Callable[..., Any]
PREFIX = "grad_"


def records(tensors: Sequence[torch.Tensor]) -> bool:
    """Tells if autograd is to follow what is done with these tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def refuse(name: str, tensors: Sequence[torch.Tensor], remedy: str) -> None:
    """Raises if autograd would lose track of one of these tensors."""
    if records(tensors):
        at = next(at for at, tensor in enumerate(tensors) if tensor.requires_grad)
        raise RuntimeError(
            f"{name}: tensor {at} requires grad, which a launch does not give it: {remedy}, launch it on "
            f"tensor.detach(), or under torch.no_grad()"
        )


def asked_for(kernel: Kernel, backward: Backward) -> list[str] | None:
    """The names that ``backward`` takes, of those that there are; ``None`` stands for all of them."""
    names = _taken(backward)
    if names is None:
        return None
    known = {*kernel.operand_names, *kernel.scalar_names, *(PREFIX + name for name in kernel.output_names)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TypeError(
            f"{kernel.signature}: its backward takes {unknown[0]!r}, which is none of {', '.join(sorted(known))}"
        )
    return names


def apply(kernel: Kernel, inputs: dict[str, torch.Tensor], scalars: dict[str, Any], site: tuple[str, int]) -> Any:
    """Launches the kernel and has autograd know of it."""
    results = _Launch.apply(kernel, tuple(inputs), scalars, site, *inputs.values())
    return results[0] if len(results) == 1 else results


class _Launch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Kernel, names: tuple[str, ...], scalars: dict[str, Any], site: Any, *inputs: torch.Tensor
    ) -> Any:
        results = kernel._launch_on(dict(zip(names, inputs)), scalars, site)
        ctx.kernel, ctx.names, ctx.scalars = kernel, names, scalars
        ctx.save_for_backward(*inputs, *results)
        whole = [result for result in results if not result.is_floating_point() and not result.is_complex()]
        ctx.mark_non_differentiable(*whole)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        kernel = ctx.kernel
        operands = dict(zip((*ctx.names, *kernel.output_names), ctx.saved_tensors))
        named = {PREFIX + name: gradient for name, gradient in zip(kernel.output_names, gradients)}
        everything = {**operands, **ctx.scalars, **named}
        asked = kernel.backward_names
        given = everything if asked is None else {name: everything[name] for name in asked}
        found = _by_input(kernel, ctx.names, kernel.backward(**given))
        return (None, None, None, None, *(found[name] for name in ctx.names))


def _taken(backward: Backward) -> list[str] | None:
    from .kernels import Kernel

    if isinstance(backward, Kernel):
        return [*backward.input_names, *backward.scalar_names]
    parameters = inspect.signature(backward).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def _by_input(kernel: Kernel, names: Sequence[str], found: Any) -> dict[str, torch.Tensor | None]:
    from .kernels import Kernel

    found = list(found) if isinstance(found, (tuple, list)) else [found]
    order = list(names)
    if isinstance(kernel.backward, Kernel):
        order = [name.removeprefix(PREFIX) for name in kernel.backward.output_names]
    if len(found) != len(order):
        raise RuntimeError(
            f"{kernel.signature}: its backward gave {len(found)} gradients, not one for each of {', '.join(order)}"
        )
    by_name = dict(zip(order, found))
    return {name: by_name.get(name) for name in names}
