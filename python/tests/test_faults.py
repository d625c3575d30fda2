"""Faults end with their stream's work: no later call suffers, and no cancelled work looks like a result.

CI runs a share of the random programs; `python -m faults.run --programs 2000` runs them all.
"""

import os
import time

import pytest
import torch
from conftest import needs_spyre
from torch_spyre import _C

pytestmark = needs_spyre

PROGRAMS = int(os.environ.get("SPYRE_FAULT_PROGRAMS", "150"))
BAD = "torch.tensor([99]).to('spyre')"
POISONED = "holds no result"


def bad_index():
    """A result that never comes: the fault is reported by a call that synchronizes."""
    table = torch.zeros(4, 64, device="spyre")
    index = torch.tensor([99]).to("spyre")
    return table.index_select(0, index)


def report():
    with pytest.raises(IndexError, match="index 99 is out of range"):
        torch.spyre.synchronize()
    torch.spyre.synchronize()


@pytest.mark.parametrize("stream", ["default", "another"])
def test_a_kernel_that_is_first_used_behind_a_fault_works_afterwards(python, stream):
    python(f"""
        import contextlib, torch
        x = torch.ones(4, 64).to("spyre")
        index = {BAD}
        side = torch.spyre.Stream()
        torch.spyre.synchronize()
        with torch.spyre.stream(side) if "{stream}" == "another" else contextlib.nullcontext():
            y = x.index_select(0, index) + 1          # the first add of the process
            try:
                torch.spyre.current_stream().synchronize()
            except IndexError as error:
                assert "99" in str(error), error
            else:
                raise AssertionError("the fault was not reported")
            assert (x + 1).cpu().eq(2).all()
        assert (x + 1).cpu().eq(2).all()
        with torch.spyre.stream(torch.spyre.Stream()):
            assert (x + 1).cpu().eq(2).all()
        torch.spyre.synchronize()
    """)


def test_a_model_that_was_given_a_bad_token_works_with_the_next_one(python):
    python("""
        import torch
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(10, 64), torch.nn.Linear(64, 8), torch.nn.ReLU())
        expected = model(torch.tensor([1, 2]))
        model.to("spyre")
        try:
            model(torch.tensor([1, 99]).to("spyre")).cpu()
            raise AssertionError("the bad token was not reported")
        except IndexError:
            pass
        torch.testing.assert_close(model(torch.tensor([1, 2]).to("spyre")).cpu(), expected)
    """)


def test_what_was_queued_behind_a_fault_cannot_be_read():
    bad_index()
    late = torch.full((4,), 7.0, device="spyre")
    report()
    for read in (torch.Tensor.cpu, torch.Tensor.tolist, str, lambda x: x[0].item(), lambda x: x + 1, torch.clone):
        with pytest.raises(RuntimeError, match=f"{POISONED}.*index 99 is out of range"):
            read(late)
    assert torch.full((4,), 7.0, device="spyre").tolist() == [7.0] * 4


def test_only_a_write_of_the_whole_storage_heals():
    late = torch.zeros(8, device="spyre")
    bad_index()
    late.fill_(3)
    report()
    late[:4] = 1
    late[4:].copy_(torch.ones(4))
    with pytest.raises(RuntimeError, match=POISONED):
        late.cpu()
    for heal in (lambda: late.fill_(5), lambda: late.copy_(torch.full((8,), 5.0)), lambda: late[:].fill_(5)):
        bad_index()
        late.zero_()
        report()
        with pytest.raises(RuntimeError, match=POISONED):
            late.cpu()
        heal()
        assert late.tolist() == [5.0] * 8
    view = late.view(2, 4).t()
    bad_index()
    late.zero_()
    report()
    view.fill_(6)
    assert late.tolist() == [6.0] * 8


def test_an_optimiser_step_that_was_cancelled_is_not_silent():
    weight = torch.nn.Parameter(torch.ones(4, 64, device="spyre"))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    weight.grad = torch.ones_like(weight)
    bad_index()
    optimizer.step()
    report()
    with pytest.raises(RuntimeError, match=POISONED):
        weight.detach().cpu()
    with torch.no_grad():
        weight.copy_(torch.ones(4, 64))
    weight.grad = torch.ones(4, 64).to("spyre")
    optimizer.step()
    assert weight.detach().cpu().eq(0.5).all()


def test_tensors_that_the_cancelled_work_did_not_write_are_sound():
    before = torch.arange(6.0).to("spyre")
    bad_index()
    _ = before + 1
    report()
    assert before.tolist() == [0, 1, 2, 3, 4, 5]
    assert (before + 1).tolist() == [1, 2, 3, 4, 5, 6]


def test_another_stream_raises_no_fault_of_this_one():
    side = torch.spyre.Stream()
    x = torch.ones(4).to("spyre")
    bad_index()
    with torch.spyre.stream(side):
        assert (x + 1).tolist() == [2] * 4
    side.synchronize()
    report()
    side.synchronize()


def test_a_stream_that_is_reset_goes_on_and_its_lost_results_raise():
    side = torch.spyre.Stream()
    with torch.spyre.stream(side):
        late = torch.zeros(4, device="spyre")
        side.synchronize()
        bad_index()
        late.fill_(1)
    while _C.is_busy(late.device.index):
        time.sleep(0.001)
    side.reset()
    side.synchronize()
    with pytest.raises(RuntimeError, match=POISONED):
        late.cpu()
    with torch.spyre.stream(side):
        late.fill_(2)
    side.synchronize()
    assert late.tolist() == [2] * 4


def test_memory_that_is_used_again_is_sound():
    for _ in range(20):
        late = [torch.zeros(16, 64, device="spyre") for _ in range(4)]
        bad_index()
        for tensor in late:
            tensor.add_(1)
        report()
        del late, tensor
        assert all(torch.empty(16, 64, device="spyre").cpu().shape == (16, 64) for _ in range(4))


def test_random_programs_with_faults_leave_no_dead_stream_and_no_silent_result():
    from faults.run import run

    faults, wrong = run(PROGRAMS, first=0, steps=24)
    assert not wrong, "\n".join(wrong)
    assert faults > PROGRAMS


def test_a_copy_from_another_card_heals_a_poisoned_tensor(python):
    python(
        """
        import torch
        here = torch.full((4, 64), 3.0, device="spyre:0")
        with torch.spyre.device(1):
            bad = torch.zeros(4, 64, device="spyre").index_select(0, torch.tensor([99]).to("spyre"))
            late = torch.full((4, 64), 5.0, device="spyre")
            try:
                torch.spyre.synchronize()
            except IndexError:
                pass
        try:
            late.cpu()
            raise AssertionError("it was read")
        except RuntimeError as error:
            assert "holds no result" in str(error), error
        late.copy_(here)
        assert late.cpu().eq(3).all()
        """,
        AIU_WORLD_SIZE="2",
    )
