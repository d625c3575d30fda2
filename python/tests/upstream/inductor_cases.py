"""Tests of PyTorch's own Inductor, made for the device: pytest runs this file, `inductor.py` counts what comes of it.

The file `test/inductor/test_torchinductor.py` of a PyTorch tree (`SPYRE_TORCH_ROOT`) has a template of tests that any
device can be given. With `SPYRE_DYNAMIC=1` their graphs have dynamic shapes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import torch
import torch._inductor.compile_fx
from torch.testing._internal import inductor_utils
from torch.testing._internal.common_utils import TestCase

ROOT = Path(os.environ["SPYRE_TORCH_ROOT"]) / "test"
FILE = ROOT / "inductor" / "test_torchinductor.py"

# The tree is a little off the released wheel: this name is imported, and no test of the template needs it.
if not hasattr(torch._inductor.compile_fx, "complex_memory_overlap"):
    torch._inductor.compile_fx.complex_memory_overlap = lambda tensor: False

inductor_utils.GPU_TYPE = "spyre"
inductor_utils.HAS_GPU = True
inductor_utils.RUN_GPU = False
inductor_utils.RUN_CPU = False


def _load():
    sys.path.insert(0, str(ROOT))
    spec = importlib.util.spec_from_file_location("test_torchinductor", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_torchinductor"] = module
    spec.loader.exec_module(module)
    return module


upstream = _load()


def _template():
    if os.environ.get("SPYRE_DYNAMIC") != "1":
        return upstream.CommonTemplate
    from torch._dynamo.testing import make_test_cls_with_patches

    return make_test_cls_with_patches(
        upstream.CommonTemplate,
        "DynamicShapes",
        "_dynamic_shapes",
        (torch._dynamo.config, "assume_static_by_default", False),
    )


class SpyreTests(TestCase):
    """The template's tests, with tensors on the device."""

    common = upstream.check_model_gpu
    device = "spyre"

    def setUp(self):
        torch._dynamo.reset()
        super().setUp()


upstream.copy_tests(_template(), SpyreTests, "spyre")
