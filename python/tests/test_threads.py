"""Eight threads, each with eight streams, copy and compute at once; every number is right."""

import threading

import pytest
import torch

import children
from conftest import needs_spyre

THREADS = 8
STREAMS = 8
ROUNDS = 6


def in_threads(work, count: int = THREADS) -> None:
    """Runs `work(number)` in threads that start together; the first failure is the test's."""
    start = threading.Barrier(count)
    failures: list[BaseException] = []

    def body(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as failure:  # noqa: BLE001 (it is raised below)
            failures.append(failure)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


@needs_spyre
def test_eight_threads_on_eight_streams_each_are_exact(device):
    def work(number: int) -> None:
        streams = [torch.spyre.Stream() for _ in range(STREAMS)]
        for round_ in range(ROUNDS):
            results = []
            for lane, stream in enumerate(streams):
                size = 1 + (number * 131 + lane * 17 + round_ * 7) % 700
                host = torch.arange(3 * size, dtype=torch.float32).reshape(3, size) + number
                pinned = host.pin_memory() if lane % 2 else host
                with torch.spyre.stream(stream):
                    there = pinned.to(device, non_blocking=True)
                    moved = (there.t() * 2 + lane).contiguous()
                    moved[::2] = moved[::2] - 1
                    there.fill_(-1)  # reused at once: what was read before must not change
                    del there
                    results.append((host, moved, lane))
            for (host, moved, lane), stream in zip(results, streams):
                expected = (host.t() * 2 + lane).contiguous()
                expected[::2] = expected[::2] - 1
                with torch.spyre.stream(stream):
                    assert torch.equal(moved.cpu(), expected), (number, round_, lane)

    in_threads(work)


@needs_spyre
def test_streams_hand_tensors_over_by_events(device):
    def work(number: int) -> None:
        streams = [torch.spyre.Stream() for _ in range(STREAMS)]
        value = torch.full((65, 33), float(number), device=device)
        event = torch.spyre.Event()
        event.record(torch.spyre.current_stream())
        for lane, stream in enumerate(streams):
            stream.wait_event(event)
            with torch.spyre.stream(stream):
                value = value + lane
                event = torch.spyre.Event()
                event.record(stream)
        event.synchronize()
        assert torch.equal(value.cpu(), torch.full((65, 33), float(number) + sum(range(STREAMS))))

    in_threads(work)


def test_threads_that_share_one_tensor_read_it_whole(device):
    host = torch.randn(257, 129, generator=torch.Generator().manual_seed(7))
    shared = host.to(device)

    def work(number: int) -> None:
        for step in range(40):
            at = (number * 37 + step * 11) % 200
            assert torch.equal(shared[at:, ::2].cpu(), host[at:, ::2])

    in_threads(work)


def test_threads_allocate_and_free_without_mixing_memory(device):
    def work(number: int) -> None:
        kept = []
        for step in range(150):
            size = 1 + (number * 7919 + step * 104729) % 3000
            kept.append((number * 1000 + step, torch.full((size,), number * 1000 + step, device=device)))
            if len(kept) > 8:
                value, tensor = kept.pop((step * 5) % 8)
                assert bool((tensor.cpu() == value).all())
        for value, tensor in kept:
            assert bool((tensor.cpu() == value).all())

    in_threads(work)


@needs_spyre
@pytest.mark.parametrize("cards", [2, 4])
def test_threads_on_several_cards_keep_their_own_device_and_stream(cards):
    children.script(
        f"""
import sys, torch
sys.path.insert(0, ".")
from test_threads import in_threads

def work(number):
    card = number % {cards}
    torch.spyre.set_device(card)
    other = (card + 1) % {cards}
    stream = torch.spyre.Stream()
    for step in range(30):
        with torch.spyre.stream(stream):
            x = torch.arange(100 + step, device="spyre").reshape(1, -1) + number
            assert x.device.index == card == torch.spyre.current_device(), x.device
            there = x.to(f"spyre:{{other}}")
            assert there.device.index == other
            back = (there * 2).to(f"spyre:{{card}}")
        with torch.spyre.stream(stream):
            assert torch.equal(back.cpu(), (torch.arange(100 + step).reshape(1, -1) + number) * 2)

in_threads(work)
""",
        AIU_WORLD_SIZE=str(cards),
    )


def test_autograd_runs_from_many_threads(device):
    def work(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        host = torch.randn(16, 33, generator=generator).requires_grad_()
        there = host.detach().to(device).requires_grad_()
        for tensor in (host, there):
            (tensor.sin() * tensor.t().contiguous().t()).sum().backward()
        torch.testing.assert_close(there.grad.cpu(), host.grad)

    in_threads(work)


