"""The core of the device: memory, storages, views, copies, streams, generators and the CPU's part."""

from __future__ import annotations

import gc
import io

import pytest
import torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
    torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
    torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def numbers(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Elements with all kinds of bits, of a dtype that may have no arithmetic."""
    count = torch.empty(size, dtype=dtype).numel() * dtype.itemsize
    bits = torch.randint(0, 2 if dtype == torch.bool else 100, (max(count, 1),), dtype=torch.uint8)
    return bits[:count].view(dtype).view(size) if count else torch.empty(size, dtype=dtype)


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Returns true if two tensors have the same bits."""
    left, right = left.contiguous().view(-1).view(torch.uint8), right.contiguous().view(-1).view(torch.uint8)
    return torch.equal(left, right)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [(), (1,), (7,), (3, 70), (2, 3, 4, 5), (0, 3), (1, 130, 1)], ids=str)
def test_every_dtype_goes_there_and_back(dtype: torch.dtype, size: tuple[int, ...], device: torch.device) -> None:
    host = numbers(*size, dtype=dtype)
    there = host.to(device)

    assert there.device.type == device.type and there.dtype == dtype and there.stride() == host.stride()
    assert same(there.cpu(), host)
    assert same(there.clone().cpu(), host)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64], ids=str)
def test_every_view_is_exact_in_both_directions(dtype: torch.dtype, device: torch.device) -> None:
    views = {
        "slice": lambda x: x[1:, 3:],
        "step": lambda x: x[:, ::3],
        "transpose": lambda x: x.t(),
        "select": lambda x: x[:, 5],
        "diagonal": lambda x: x.diagonal(),
        "expand": lambda x: x[:, :1].expand(6, 9),
        "strided": lambda x: x.as_strided((4, 5), (7, 2), 3),
        "windows": lambda x: x.unfold(1, 8, 3),
        "flat": lambda x: x.view(-1)[11:],
    }
    for name, view in views.items():
        host = numbers(6, 40, dtype=dtype)
        there = host.to(device)
        assert same(view(there).cpu(), view(host)), name
        if name in ("expand", "windows"):
            continue
        new = numbers(*view(host).shape, dtype=dtype)
        view(there).copy_(new)
        view(host).copy_(new)
        assert same(there.cpu(), host), name


@pytest.mark.parametrize("shape", [(8,), (7, 6), (5, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16], ids=str)
@pytest.mark.parametrize("seen", [torch.uint8, torch.int16, torch.int32, torch.int64, torch.complex64], ids=str)
def test_bits_can_be_seen_as_another_dtype(shape, dtype, seen, device: torch.device) -> None:
    host = numbers(*shape, dtype=dtype)
    there = host.to(device)
    try:
        expected = host.view(seen)
    except RuntimeError as refusal:
        with pytest.raises(RuntimeError) as raised:
            there.view(seen)
        assert str(raised.value) == str(refusal)
        return

    assert same(there.view(seen).cpu(), expected)
    there.view(seen).copy_(torch.zeros_like(expected))
    assert not there.cpu().view(torch.uint8).any()


def test_overlapping_views_of_one_storage_are_copied_as_if_apart(device: torch.device) -> None:
    row = torch.arange(10.0).to(device)
    row[::3].copy_(row[1:5])
    assert row.tolist() == [1, 1, 2, 2, 4, 5, 3, 7, 8, 4]


def test_rows_that_overlap_are_not_copied(device: torch.device) -> None:
    row = torch.arange(10.0).to(device)
    with pytest.raises(RuntimeError, match="single memory location"):
        row[1:].copy_(row[:-1])
    assert row.tolist() == list(range(10))


def test_elements_that_are_written_twice_are_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(1, device=device).expand(3).copy_(torch.ones(3))


@pytest.mark.parametrize("source", DTYPES[:13], ids=str)
def test_dtypes_are_converted_as_the_cpu_does(source: torch.dtype, device: torch.device) -> None:
    host = (torch.randn(40) * 5).abs().to(source)
    for target in DTYPES[:13]:
        expected = host.to(target)
        assert same(host.to(device).to(target).cpu(), expected), target
        assert same(host.to(device, target).cpu(), expected), target
        assert same(torch.empty(40, dtype=target).copy_(host.to(device)), expected), target


def test_conj_and_neg_bits_are_applied(device: torch.device) -> None:
    host = torch.randn(4, 5, dtype=torch.complex64)
    there = host.to(device)
    assert torch.equal(there.conj().cpu(), host.conj())
    assert torch.equal(there.conj().imag.cpu(), host.conj().imag)
    there.conj().copy_(host)
    assert torch.equal(there.cpu(), host.conj())


class TestStorages:
    def test_bytes_are_the_hosts(self, device: torch.device) -> None:
        host = torch.randn(5, 7)
        storage = host.to(device).untyped_storage()
        assert storage.nbytes() == 140
        assert bytes(storage.cpu()) == bytes(host.untyped_storage())

    def test_a_storage_can_be_resized_and_filled_again(self, device: torch.device) -> None:
        host = torch.randn(4, 4)
        there = host.to(device)
        storage = there.untyped_storage()
        storage.resize_(128)
        assert torch.equal(there.cpu(), host)
        storage.resize_(0)
        assert storage.data_ptr() == 0
        with pytest.raises(RuntimeError, match="no memory"):
            there.cpu()
        storage.resize_(64)
        storage.copy_(host.untyped_storage())
        assert torch.equal(there.cpu(), host)

    def test_a_tensor_can_be_given_anothers_storage(self, device: torch.device) -> None:
        there = torch.arange(12.0).to(device)
        other = torch.empty(0, device=device).set_(there.untyped_storage(), 2, (2, 3), (4, 1))
        assert other.tolist() == [[2, 3, 4], [6, 7, 8]]
        other.set_()
        assert other.numel() == 0

    def test_resize_keeps_elements_in_order(self, device: torch.device) -> None:
        there = torch.arange(6.0).view(2, 3).to(device).resize_(4, 5)
        assert there.shape == (4, 5) and there.view(-1)[:6].tolist() == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_saved_tensors_come_back(self, dtype: torch.dtype, device: torch.device) -> None:
        there = numbers(3, 70, dtype=dtype).to(device)[1:, 2:]
        file = io.BytesIO()
        torch.save(there, file)
        for location in (None, "cpu", str(device)):
            file.seek(0)
            loaded = torch.load(file, map_location=location)
            assert loaded.stride() == there.stride() and same(loaded.cpu(), there.cpu())


class TestMemory:
    def test_bytes_are_those_of_whole_sticks_and_come_back(self) -> None:
        gc.collect()
        before = torch.accelerator.memory_allocated()
        tensors = [torch.empty(64, 64, dtype=torch.float16, device="spyre"), torch.empty(2, device="spyre")]
        assert torch.accelerator.memory_allocated() - before == 8192 + 128
        del tensors
        assert torch.accelerator.memory_allocated() == before

    def test_addresses_are_opaque_and_tell_their_device(self) -> None:
        there = torch.ones(100, device="spyre")
        assert there.data_ptr() >> 48 == 0xD5
        assert there[10:].data_ptr() == there.data_ptr() + 40
        assert torch.empty(0, device="spyre").data_ptr() == 0

    def test_out_of_memory_raises_with_numbers_and_loses_nothing(self) -> None:
        before = torch.accelerator.memory_allocated()
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 4096.00 GiB.*SPYRE_MEMORY_LIMIT"):
            torch.empty(1 << 40, device="spyre")
        assert torch.accelerator.memory_allocated() == before

    def test_pinned_memory_outlives_its_tensor_while_it_is_copied(self) -> None:
        pinned = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
        assert pinned.is_pinned()
        there = pinned.to("spyre", non_blocking=True)
        del pinned
        gc.collect()
        assert torch.equal(there.cpu(), torch.arange(1 << 20, dtype=torch.float32))

    def test_pageable_memory_may_change_after_a_copy_that_does_not_block(self) -> None:
        host = torch.ones(1 << 18)
        there = host.to("spyre", non_blocking=True)
        host.zero_()
        assert there.cpu().sum() == 1 << 18


class TestFallback:
    def test_results_strides_and_aliases_are_the_cpus(self, device: torch.device) -> None:
        host = torch.randn(4, 4)
        there = host.to(device)
        assert torch.equal((there.t() + 1).cpu(), host.t() + 1) and (there.t() + 1).stride() == (1, 4)
        assert there.add_(1) is there and torch.equal(there.cpu(), host + 1)
        out = torch.empty(0, device=device)
        assert torch.add(there, 1, out=out) is out and out.shape == (4, 4)
        torch.add(there[:2], 1, out=there[2:])
        assert torch.equal(there[2:].cpu(), (host + 1)[:2] + 1)

    def test_devices_that_are_mixed_are_refused(self) -> None:
        with pytest.raises(RuntimeError, match="same device, but found at least two devices, spyre:0 and cpu"):
            torch.ones(3, device="spyre") + torch.ones(3)
        assert (torch.ones(3, device="spyre") * torch.tensor(2.0)).tolist() == [2, 2, 2]

    def test_gradients_of_recurrent_and_convolutional_layers_are_the_cpus(self, device: torch.device) -> None:
        import copy

        for layer, x in [
            (torch.nn.LSTM(4, 5, bidirectional=True), torch.randn(3, 2, 4)),
            (torch.nn.GRU(4, 5, bias=False), torch.randn(3, 2, 4)),
            (torch.nn.Conv2d(3, 4, 3, stride=2), torch.randn(2, 3, 9, 9)),
            (torch.nn.ConvTranspose1d(3, 4, 3), torch.randn(2, 3, 9)),
        ]:
            there = copy.deepcopy(layer).to(device)
            results = [layer(x), there(x.to(device))]
            results = [result[0] if isinstance(result, tuple) else result for result in results]
            torch.testing.assert_close(results[1].cpu(), results[0], rtol=1e-4, atol=1e-5)
            for result in results:
                result.square().sum().backward()
            for ours, theirs in zip(there.parameters(), layer.parameters()):
                torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-4)

    def test_numbers_follow_the_devices_generator(self) -> None:
        generator = torch.Generator("spyre").manual_seed(7)
        state = generator.get_state()
        first = torch.rand(5, device="spyre", generator=generator).cpu()
        second = torch.rand(5, device="spyre", generator=generator).cpu()
        generator.set_state(state)
        assert torch.equal(torch.rand(5, device="spyre", generator=generator).cpu(), first)
        assert not torch.equal(first, second)


def test_several_cards_copy_to_each_other(python) -> None:
    python(
        """
        import torch
        a = torch.randn(100, 100, device="spyre:0")
        assert torch.equal(a.to("spyre:2").cpu(), a.cpu())
        assert torch.equal(a[:, 3:].t().to("spyre:1").cpu(), a.cpu()[:, 3:].t())
        half = torch.empty(100, 100, device="spyre:1", dtype=torch.float16).copy_(a)
        assert torch.equal(half.cpu(), a.cpu().half())
        try:
            a + a.to("spyre:2")
            raise SystemExit("two devices were mixed")
        except RuntimeError as error:
            assert "spyre:0 and spyre:2" in str(error), error
        """,
        "-W", "ignore", AIU_WORLD_SIZE="3",
    )  # fmt: skip


def test_a_stream_waits_for_another_card_and_the_host_does_not(python) -> None:
    python(
        """
        import torch
        here, there = torch.device("spyre:0"), torch.device("spyre:1")
        x = torch.full((1536, 1536), 0.5, device=here)
        stream, event = torch.spyre.Stream(device=there), torch.spyre.Event()
        torch.spyre.synchronize(here)
        for _ in range(8):
            y = x @ x
        event.record(torch.spyre.current_stream(here))
        stream.wait_event(event)
        assert not event.query(), "the host has waited"
        stream.synchronize()
        assert event.query() and y[0, 0].item() == 384
        """,
        "-W", "ignore", AIU_WORLD_SIZE="2",
    )  # fmt: skip


def test_calls_in_a_forked_child_raise_and_tensors_are_dropped_unharmed(python) -> None:
    python(
        """
        import gc, os, torch
        there = torch.ones(3, device="spyre")
        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0 and there.tolist() == [1, 1, 1]
        else:
            for call in (there.cpu, lambda: torch.empty(1, device="spyre"), torch.accelerator.synchronize):
                try:
                    call()
                    os._exit(1)
                except RuntimeError as error:
                    assert "fork" in str(error), error
            del there
            gc.collect()
        """,
        "-W", "ignore",
    )  # fmt: skip


def test_the_card_profile_keeps_what_the_card_keeps(python) -> None:
    python(
        """
        import io, torch
        x = torch.randn(5, 70, dtype=torch.float16)
        y = x.to("spyre")
        assert (y.cpu() - x).abs().max() <= 2**-9 * x.abs().max()
        assert torch.equal(y[:, 3:].t().cpu(), y.cpu()[:, 3:].t())
        assert bytes(y.untyped_storage().cpu()) == bytes(y.cpu().untyped_storage())
        file = io.BytesIO(); torch.save(y, file); file.seek(0)
        assert torch.equal(torch.load(file).cpu(), y.cpu())
        for refused in (torch.float64, torch.complex64):
            try:
                torch.ones(3, dtype=refused).to("spyre")
                raise SystemExit(f"{refused} was taken")
            except RuntimeError as error:
                assert "does not support dtype" in str(error), error
        """,
        "-W", "ignore", SPYRE_PROFILE="card",
    )  # fmt: skip
