"""Memory that leaves PyTorch: by DLPack, to another process, to a file, or as if it were the host's."""

from __future__ import annotations

import textwrap

import pytest
import torch

import children
from conftest import needs_spyre

pytestmark = needs_spyre

REFUSED = {
    "x.untyped_storage().byteswap(torch.float32)": "swapped on the host",
    "x.untyped_storage()._byteswap(4)": "swapped on the host",
    "x.storage().untyped().byteswap(torch.float32)": "swapped on the host",
    "x.share_memory_()": "share tensor.cpu()",
    "x.untyped_storage().share_memory_()": "share tensor.cpu()",
    "x.storage().share_memory_()": "share tensor.cpu()",
    "torch.nn.Linear(2, 2).to('spyre').share_memory()": "share tensor.cpu()",
    "x.untyped_storage()._share_fd_cpu_()": "share tensor.cpu()",
    "x.untyped_storage()._share_filename_cpu_()": "share tensor.cpu()",
    "torch._C.PyTorchFileWriter(PATH).write_record('a', x.untyped_storage(), 12)": "storage.cpu()",
    "torch._C.PyTorchFileWriter(PATH).write_record('a', x.data_ptr(), 12)": "storage.cpu()",
    "x.pin_memory()": "only dense CPU tensors can be pinned",
    "x.untyped_storage().pin_memory()": "only CPU memory can be pinned",
    "x.numpy()": "Tensor.cpu()",
    "numpy.asarray(x)": "Tensor.cpu()",
    "numpy.from_dlpack(x)": "tensor.cpu()",
    "x.__dlpack__()": "tensor.cpu()",
    "x.__dlpack__(dl_device=(1, 0), copy=False)": "without a copy",
    "memoryview(x)": "bytes-like",
}


@pytest.mark.parametrize("code", REFUSED)
def test_an_access_by_address_is_refused_in_words(code, tmp_path):
    said = children.script(
        textwrap.dedent(f"""
            import numpy, torch
            PATH = {str(tmp_path / "file")!r}
            x = torch.ones(3, device="spyre")
            try:
                {code}
            except (RuntimeError, TypeError, BufferError) as error:
                print("refused:", error)
            assert torch.equal(x.cpu(), torch.ones(3))
        """),
    )
    assert "refused:" in said and REFUSED[code] in said


def test_host_tensors_are_served_as_before(tmp_path):
    host = torch.tensor([1.0, 2.0])
    host.untyped_storage().byteswap(torch.float32)
    host.untyped_storage().byteswap(torch.float32)
    assert torch.equal(host, torch.tensor([1.0, 2.0]))
    assert host.share_memory_().is_shared()
    assert torch.equal(torch.from_dlpack(host), host) and torch.from_dlpack(host).data_ptr() == host.data_ptr()


def test_storages_tell_that_their_memory_is_not_shared(device):
    there = torch.ones(3, device=device)
    assert not there.is_shared() and not there.untyped_storage().is_shared()


def test_storages_are_written_to_files_and_read_from_them(device, tmp_path):
    there, path = torch.arange(4.0, device=device), tmp_path / "storage"
    with path.open("wb") as file:
        there.untyped_storage()._write_file(file, True, True, 4)
    other = torch.zeros(4, device=device)
    with path.open("rb") as file:
        other.untyped_storage()._set_from_file(file, None, True, 4)
    assert torch.equal(other.cpu(), torch.arange(4.0))


def test_dlpack_gives_the_host_a_copy_when_it_is_asked_for_one(device):
    numpy = pytest.importorskip("numpy")
    there = torch.arange(6.0, device=device).reshape(2, 3).t()
    copy = numpy.from_dlpack(there, device="cpu")
    there.zero_()
    assert numpy.array_equal(copy, [[0, 3], [1, 4], [2, 5]])
    with pytest.raises(BufferError, match="gradient"):
        numpy.from_dlpack(torch.ones(2, device=device, requires_grad=True), device="cpu")


def test_dlpack_within_torch_shares_memory_and_copies_across_devices(device):
    there = torch.arange(6, device=device).reshape(2, 3)
    shared, copied = torch.from_dlpack(there), torch.from_dlpack(there, copy=True)
    host = torch.from_dlpack(there, device="cpu")
    there.add_(1)

    assert there.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLExtDev, 0)
    assert shared.device == there.device and torch.equal(shared.cpu(), there.cpu())
    assert torch.equal(copied.cpu(), there.cpu() - 1)
    assert host.device.type == "cpu" and torch.equal(host, there.cpu() - 1)
    del there
    assert torch.equal(shared.cpu(), torch.arange(1, 7).reshape(2, 3))
    capsule = torch.utils.dlpack.to_dlpack(shared)
    assert torch.equal(torch.from_dlpack(capsule).cpu(), shared.cpu())


def test_dlpack_brings_tensors_of_other_packages_to_the_device(device):
    numpy = pytest.importorskip("numpy")
    there = torch.from_dlpack(numpy.arange(5), device=str(device))
    assert there.device.type == device.type and torch.equal(there.cpu(), torch.arange(5))
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(torch.ones(2), device=str(device), copy=False)


SENT = """
import sys, torch, torch.multiprocessing as mp

def child(queue, back):
    x, view, model = queue.get()
    assert x.device.type == view.device.type == "spyre" and x.is_leaf
    view.zero_()
    back.put((x, model(torch.ones(1, 2, device="spyre")).detach()))
    queue.get()  # stays until the parent has taken it

if __name__ == "__main__":
    mp.set_sharing_strategy(sys.argv[1])
    context = mp.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, back))
    process.start()
    x, model = torch.arange(6.0, device="spyre").reshape(2, 3), torch.nn.Linear(2, 2).to("spyre")
    queue.put((x, x[1], model))
    received, y = back.get(timeout=60)
    assert torch.equal(received.cpu(), torch.tensor([[0.0, 1, 2], [0, 0, 0]])), received
    assert torch.equal(x.cpu(), torch.arange(6.0).reshape(2, 3)), "what is sent is a copy"
    assert torch.equal(y.cpu(), model(torch.ones(1, 2, device="spyre")).detach().cpu())
    queue.put(None)
    process.join(60)
    assert process.exitcode == 0
"""


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_tensors_are_sent_to_another_process_as_copies(tmp_path, strategy):
    path = tmp_path / "sent.py"
    path.write_text(SENT)
    code, said = children.finish(children.start([str(path), strategy]), 120)
    assert code == 0, said


SENT_BY_STREAMS = """
import torch, torch.multiprocessing as mp

def child(queue, back):
    back.put(queue.get().cpu())
    try:
        queue.get()
    except RuntimeError as error:
        back.put(str(error))

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, back))
    process.start()
    x = torch.eye(1500, device="spyre")
    side = torch.spyre.Stream()
    with torch.spyre.stream(side):
        y = torch.zeros(1500, 1500, device="spyre")
        side.synchronize()
        for _ in range(5):
            z = x @ x
        y.copy_(z)
        queue.put(y)
        assert torch.equal(back.get(timeout=60), torch.eye(1500)), "it was copied before it was written"
        bad = x.index_select(0, torch.tensor([9999], device="spyre"))
        late = torch.ones(3, device="spyre")
        queue.put(late)
        said = back.get(timeout=60)
        assert "holds no result" in said and "9999" in said, said
        try:
            side.synchronize()
            raise AssertionError("the fault was reported to another thread")
        except IndexError:
            pass
    process.join(60)
    assert process.exitcode == 0
"""


def test_a_queue_sends_what_streams_have_written_and_says_what_they_have_not(tmp_path):
    path = tmp_path / "sent.py"
    path.write_text(SENT_BY_STREAMS)
    code, said = children.finish(children.start([str(path)]), 120)
    assert code == 0, said


def test_a_forked_process_gets_an_error_that_says_why_it_cannot_have_a_tensor():
    said = children.script(
        textwrap.dedent("""
            import torch, torch.multiprocessing as mp
            def child(queue, back):
                try:
                    queue.get()
                except RuntimeError as error:
                    back.put(str(error))
            context = mp.get_context("fork")
            queue, back = context.Queue(), context.Queue()
            x = torch.ones(3, device="spyre")
            process = context.Process(target=child, args=(queue, back), daemon=True)
            process.start()
            queue.put(x)
            print(back.get(timeout=60))
            process.join(60)
        """)
    )
    assert "forked" in said and "spawn" in said


def test_the_older_profiler_shows_what_the_device_did(device):
    said = children.script(
        textwrap.dedent("""
            import torch
            from torch.autograd.profiler import profile
            x = torch.ones(30, 30, device="spyre")
            with profile(use_device="spyre") as recorded:
                x @ x
                torch.spyre.synchronize()
            rows = {row.key: row for row in recorded.key_averages()}
            assert rows["aten::mm"].device_time_total > 0 and rows["aten::mm"].cpu_time_total > 0
            assert "SPYRE" in recorded.key_averages().table()
        """)
    )
    assert "assert" not in said.lower() and "privateuse1" not in said.lower()
