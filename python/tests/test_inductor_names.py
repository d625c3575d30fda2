"""Names that programs import from `torch_spyre._inductor`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from conftest import needs_spyre
from torch_spyre import _C
from torch_spyre._inductor import constants
from torch_spyre._inductor.decompositions import spyre_decompositions
from torch_spyre._inductor.dtype_ops import DtypeOpTable, Support

pytestmark = needs_spyre

MEASURED = Path(__file__).parents[2] / "docs" / "op-table.md"


def test_to_import_them_imports_neither_dynamo_nor_inductor(python):
    python("""
        import sys
        import torch
        import torch_spyre
        from torch_spyre._inductor import config, constants, decompositions, dtype_ops, errors, get_op_hints
        from torch_spyre._inductor import logging_utils, propagate_named_dims, spyre_hint
        torch_spyre.explain
        assert "torch._dynamo" not in sys.modules
        assert "torch._inductor" not in sys.modules
    """)


def test_a_name_that_is_none_is_an_attribute_error():
    import torch_spyre
    import torch_spyre._inductor

    for module in (torch_spyre, torch_spyre._inductor):
        with pytest.raises(AttributeError, match="no_such_name"):
            module.no_such_name


def test_explain_is_a_function_whatever_was_imported_before(python):
    python("""
        import torch_spyre.explanation
        import torch_spyre
        assert callable(torch_spyre.explain) and "explain" in torch_spyre.__all__
    """)


def test_constants_are_those_of_a_card():
    assert constants.DEVICE_NAME == "spyre"
    assert torch.spyre.get_device_properties(0).multi_processor_count == constants.CORES
    assert constants.STICK_BYTES == torch.float16.itemsize * torch.spyre.get_elem_in_stick(torch.float16)
    assert constants.PROG_OFFSET_BASE == 0x1C_0000_0000
    assert constants.SEGMENT_OFFSETS[-1] + constants.SEGMENT_SIZE == constants.PROG_OFFSET_BASE


@pytest.mark.parametrize(
    ("op", "support"),
    [
        ("exp", Support.NATIVE),
        ("aten::add.Tensor", Support.NATIVE),
        ("aten::add_.Tensor", Support.NATIVE),
        ("aten::add.out", Support.NATIVE),
        (torch.ops.aten.mm, Support.NATIVE),
        (torch.ops.aten.view.default, Support.NATIVE),
        ("aten::trace", Support.DECOMPOSED),
        ("aten::linear", Support.DECOMPOSED),
        ("aten::_segment_reduce_backward", Support.HOST),
    ],
)
def test_the_way_of_an_operator(op, support):
    table = DtypeOpTable()
    assert table.support(op, torch.float32) is support
    assert table.is_supported(op, torch.float32) is (support is not Support.HOST)
    assert table.row(op)[torch.float16] is support


def test_unknown_operators_are_refused_by_name():
    with pytest.raises(ValueError, match="there is no operation 'no_such_op'"):
        DtypeOpTable().support("no_such_op", torch.float32)


def test_every_row_of_the_registry_is_carried_out():
    table = DtypeOpTable()
    assert set(table.operators) == {name if "::" in name else f"aten::{name}" for name, _ in _C.operators()}
    ways = {name: row[torch.float32] for name, row in table}
    assert len(ways) > 450
    assert set(ways.values()) == {Support.NATIVE, Support.DECOMPOSED}


def test_what_was_measured_to_run_on_the_device_is_not_said_to_be_the_hosts():
    table = DtypeOpTable()
    page = MEASURED.read_text()
    names = re.findall(r"^\| (\w+) \|.* ok \|", page, re.MULTILINE)
    known = [name for name in names if hasattr(torch.ops.aten, name)]
    assert len(known) > 150
    wrong = [name for name in known if not table.is_supported(getattr(torch.ops.aten, name), torch.float32)]
    assert wrong == []


def test_a_card_refuses_dtypes_for_which_it_has_no_format(python):
    out = python(
        """
        import torch
        from torch_spyre._inductor.dtype_ops import DtypeOpTable
        table = DtypeOpTable()
        for dtype in (torch.float16, torch.float64, torch.complex64):
            print(table.support("exp", dtype).value)
        """,
        SPYRE_PROFILE="card",
    ).stdout
    assert out.split() == ["native", "refused", "refused"]


def test_decompositions_are_functions_by_overload():
    from torch_spyre.ops.composites import FUNCTIONS

    assert isinstance(spyre_decompositions, dict)
    assert all(isinstance(op, torch._ops.OpOverload) and callable(f) for op, f in spyre_decompositions.items())
    assert spyre_decompositions[torch.ops.aten.trace.default] is FUNCTIONS["aten::trace"]
    x = torch.randn(5, 5, device="spyre")
    torch.testing.assert_close(spyre_decompositions[torch.ops.aten.trace.default](x), x.trace())


def test_functions_that_a_program_registers_are_among_them():
    from torch_spyre.ops.decompositions import (
        decompositions_by_overload,
        register_spyre_decomposition,
        remove_spyre_decomposition,
    )

    @register_spyre_decomposition("aten::frac")
    def frac(x):
        return x - x.trunc()

    try:
        assert decompositions_by_overload()[torch.ops.aten.frac.default] is frac
    finally:
        remove_spyre_decomposition("aten::frac")


def test_loggers_of_the_compiler(python):
    out = python(
        """
        import os
        from torch_spyre._inductor import logging_utils as log

        assert log.get_inductor_logger("lowering") is log.lowering_log is log.get_logger("inductor.lowering")
        assert log.get_inductor_logger("my_pass").name == "spyre.inductor.my_pass"
        assert not log.is_inductor_logging_enabled()
        log.update_log_level("DEBUG", "codegen")
        assert log.is_inductor_logging_enabled("DEBUG") and not log.stickify_log.isEnabledFor(10)
        log.update_log_level("INFO")
        assert log.passes_log.isEnabledFor(20) and not log.codegen_log.isEnabledFor(10)

        assert not log._needs_reinit()
        os.environ["SPYRE_LOGS"] = "inductor.passes:ERROR"
        assert log._needs_reinit()
        log.update_log_level()
        assert not log._needs_reinit() and not log.is_inductor_logging_enabled()
        assert not log.passes_log.isEnabledFor(30) and log.lowering_log.isEnabledFor(30)
        """,
        SPYRE_LOGS=None,
        TORCH_LOGS=None,
    )
    assert out.stderr == ""


def test_the_text_of_each_kernel_is_logged(python):
    made = python(
        """
        import torch
        torch.compile(lambda x: torch.softmax(x, -1))(torch.ones(4, 8, device="spyre"))
        """,
        SPYRE_LOGS="inductor.codegen:DEBUG",
        TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
    )
    assert "[DEBUG] [spyre.inductor.codegen] kernel spyre_fused__softmax_0(d0, d1) {" in made.stderr
