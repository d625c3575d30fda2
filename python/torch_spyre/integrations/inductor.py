"""torch.compile: the device is made known to Dynamo and Inductor when they are imported."""

from .._inductor.registration import change_codegen, change_compile, change_interfaces, change_lowering

__all__ = ["change_codegen", "change_compile", "change_interfaces", "change_lowering"]
