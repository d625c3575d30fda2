"""Operations that are done as others: PyTorch's, the package's, and those of a program."""

import pytest
import torch
from torch_spyre import _C
from torch_spyre.ops.decompositions import (
    decomposition_stats,
    register_spyre_decomposition,
    remove_spyre_decomposition,
    spyre_decompositions,
)
from torch_spyre.ops.fallbacks import set_fallback_mode

from conftest import needs_spyre

pytestmark = needs_spyre


@pytest.fixture(autouse=True)
def no_decompositions(no_fallback):
    yield
    if spyre_decompositions:
        remove_spyre_decomposition(list(spyre_decompositions))


def sevens(x):
    return torch.full_like(x, 7)


def test_a_program_decides_how_an_operation_is_done_until_it_takes_that_back():
    x = torch.tensor([1.25, -2.5], device="spyre")

    register_spyre_decomposition("aten::frac")(sevens)
    assert x.frac().tolist() == [7, 7]
    assert set(spyre_decompositions) == {"aten::frac", "aten::frac.out"}

    remove_spyre_decomposition("aten::frac")
    assert x.frac().tolist() == [0.25, -0.5]
    assert not spyre_decompositions


def test_forms_that_write_are_made_from_the_one_that_does_not():
    register_spyre_decomposition("aten::frac")(sevens)
    x, y = torch.tensor([1.25, -2.5], device="spyre"), torch.empty(0, device="spyre")

    assert torch.frac(x, out=y) is y and y.tolist() == [7, 7]
    assert x.frac_() is x and x.tolist() == [7, 7]


def test_an_operation_that_is_registered_again_is_done_in_the_last_way():
    register_spyre_decomposition("aten::frac")(sevens)
    register_spyre_decomposition("aten::frac")(lambda x: x + 1)

    assert torch.ones(2, device="spyre").frac().tolist() == [2, 2]


def test_gradients_stay_those_of_the_operation():
    register_spyre_decomposition("aten::sin")(lambda x: (x - torch.pi / 2).cos())
    x = torch.tensor([0.5, 1.5], device="spyre", requires_grad=True)

    x.sin().sum().backward()

    torch.testing.assert_close(x.grad.cpu(), torch.tensor([0.5, 1.5]).cos())


def test_nothing_is_a_part_of_itself():
    register_spyre_decomposition("aten::frac")(lambda x: x.frac())

    with pytest.raises(RecursionError, match="aten::frac.* is decomposed into itself"):
        torch.ones(2, device="spyre").frac()


def test_what_is_not_registered_cannot_be_taken_back():
    with pytest.raises(ValueError, match="no decomposition of aten::frac"):
        remove_spyre_decomposition("aten::frac")


def test_views_cannot_be_decomposed():
    with pytest.raises(ValueError, match="view"):
        register_spyre_decomposition(torch.ops.aten.t.default)(lambda x: x)


def test_an_operation_without_a_kernel_is_done_as_others_on_the_device():
    x = torch.randn(5, 5)
    before = decomposition_stats().get("aten::trace", 0)

    y = torch.trace(x.to("spyre"))

    torch.testing.assert_close(y.cpu(), torch.trace(x))
    assert decomposition_stats()["aten::trace"] == before + 1


def test_a_decomposition_is_refused_if_a_part_needs_the_cpu():
    @register_spyre_decomposition("aten::frac")
    def frac(x):
        return torch.matrix_exp(x)

    with pytest.raises(NotImplementedError, match="aten::linalg_matrix_exp has no implementation"):
        torch.eye(2, device="spyre").frac()


def test_what_a_decomposition_does_not_take_goes_to_the_cpu():
    set_fallback_mode("silent")
    torch.spyre.reset_fallback_stats()

    with pytest.raises(RuntimeError, match="expected a matrix"):
        torch.trace(torch.ones(3, device="spyre"))
    assert torch.spyre.fallback_stats() == {"aten::trace": 1}


def test_the_cpu_does_everything_without_eager_mode(python):
    code = """
        import torch
        from torch_spyre.ops.fallbacks import set_fallback_mode
        set_fallback_mode("silent")
        print(torch.trace(torch.eye(2).to("spyre")).item(), sorted(torch.spyre.fallback_stats()))
    """
    assert python(code, EAGER_MODE="0").stdout.strip() == "2.0 ['aten::trace']"
    assert python(code).stdout.strip() == "2.0 []"


def test_the_import_reads_none_of_it(python):
    code = "import sys, torch; print([name for name in sys.modules if 'spyre.ops.' in name])"
    assert python(code).stdout.strip() == "[]"


CASES = {
    "kthvalue": lambda x: torch.kthvalue(x, 3, 1),
    "median": lambda x: (x.median(), *x.median(0)),
    "nanmedian": lambda x: x.masked_fill(x > 1, torch.nan).nanmedian(1).values,
    "mode": lambda x: torch.mode(x.round(), 1).values,
    "bincount": lambda x: torch.bincount((x.abs() * 4).long().reshape(-1)),
    "histc": lambda x: (torch.histc(x, 7), torch.histc(x, 5, -1, 1)),
    "searchsorted": lambda x: torch.searchsorted(x.sort(1).values, x * 1.5, right=True),
    "bucketize": lambda x: torch.bucketize(x, x[0].sort().values),
    "unique": lambda x: torch.unique((x * 2).round(), return_inverse=True, return_counts=True),
    "unique of rows": lambda x: torch.unique(x.sign()[:, :2], dim=0, return_counts=True),
    "unique_consecutive": lambda x: torch.unique_consecutive(x.sign(), return_counts=True),
    "cdist": lambda x: torch.cdist(x, x[:4], 1.5),
    "pdist": lambda x: torch.nn.functional.pdist(x),
    "scatter mean": lambda x: x.scatter_reduce(1, torch.zeros_like(x, dtype=torch.int64), x, "mean"),
    "take and put": lambda x: x.put(torch.tensor([3, 1], device=x.device), x.take(torch.tensor([2, 9], device=x.device))),
    "rows added with a factor": lambda x: x.index_add(0, torch.tensor([3, 3, 1], device=x.device), x[:3], alpha=-2.5),
    "nothing next to nothing": lambda x: torch.cat([x[:0, 0], x[:0, 1]]),
    "indices of no triangle": lambda x: torch.triu_indices(1, 1, 1, device=x.device),
    "hash": lambda x: tuple(
        torch.hash_tensor((x * 50).to(dtype), dim, keepdim=dim == 1).view(torch.int64)
        for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool)
        for dim in ((), 0, 1, (0, 1))
    ),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 1:4]),
    "fft": lambda x: torch.view_as_real(torch.fft.fft(x)),
    "fft of a length in factors": lambda x: torch.view_as_real(torch.fft.rfft(x.reshape(-1)[:180].repeat(2))),
    "fft and back": lambda x: torch.fft.irfftn(torch.fft.rfftn(x), s=x.shape),
    "complex numbers": lambda x: torch.view_as_real(torch.complex(x, x + 1) * (2 - 1j) + torch.polar(x.abs(), x)),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_give_what_the_cpu_gives(name):
    x = torch.randn(20, 10, generator=torch.Generator().manual_seed(3))

    given, expected = CASES[name](x.to("spyre")), CASES[name](x)

    for a, b in zip(given, expected) if isinstance(expected, tuple) else [(given, expected)]:
        torch.testing.assert_close(a.cpu(), b)


COMPLEX = {
    "sum": lambda z, w: z + w * 1.5,
    "product": lambda z, w: z * w - 1j,
    "quotient": lambda z, w: z / w,
    "conjugate product": lambda z, w: z @ w.conj().mT,
    "magnitude and angle": lambda z, w: torch.stack([z.abs(), w.angle()]),
    "exponential": lambda z, w: z.exp().log(),
    "reductions": lambda z, w: z.sum(1) + w.mean(),
    "parts of a conjugate": lambda z, w: z.conj().imag + w.real,
    "of real ones": lambda z, w: z.real.to(torch.complex64) + w.imag,
    "wider": lambda z, w: z.to(torch.complex128),
    "moved": lambda z, w: torch.cat([z.flip(1), w.tril(), z.roll(3, 1)]),
    "chosen": lambda z, w: torch.where(z.real > 0, z, w).masked_fill(w.real > 0, 1j),
    "in place": lambda z, w: z.clone().mul_(w).add_(1).conj().resolve_conj(),
    "rows added": lambda z, w: z.index_add(0, torch.tensor([3, 3, 1], device=z.device), w[:3], alpha=2 - 1j),
    "bordered": lambda z, w: torch.nn.functional.pad(z, (2, 1), "reflect")
    + torch.nn.functional.pad(w, (1, 2), "replicate"),
    "filled": lambda z, w: torch.full_like(z, 2 - 1j) + torch.zeros_like(w.t()).t(),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_are_pairs_of_real_ones(name):
    generator = torch.Generator().manual_seed(5)
    z, w = (torch.randn(6, 70, dtype=torch.complex64, generator=generator) for _ in range(2))

    given, expected = COMPLEX[name](z.to("spyre"), w.to("spyre")), COMPLEX[name](z, w)

    torch.testing.assert_close(given.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex32], ids=str)
def test_parts_of_complex_numbers_are_cast_on_the_device(dtype):
    z = torch.randn(6, 70, dtype=torch.complex64).to(dtype)
    there, before = z.to("spyre"), _C.traffic()["copies_to_host"]

    given = [there.real.to(torch.float32), torch.view_as_real(there).to(torch.float32), there.to(torch.complex64)]

    assert _C.traffic()["copies_to_host"] == before
    expected = [z.real.to(torch.float32), torch.view_as_real(z).to(torch.float32), z.to(torch.complex64)]
    for a, b in zip(given, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b)


def test_bags_have_gradients():
    table, index = torch.randn(9, 4), torch.tensor([1, 2, 2, 8, 0, 1])
    for mode in ("sum", "mean", "max"):
        results = []
        for device in ("cpu", "spyre"):
            weight = table.to(device, copy=True).requires_grad_()
            starts = torch.tensor([0, 2, 2, 5], device=device)
            bags = torch.nn.functional.embedding_bag(index.to(device), weight, starts, mode=mode)
            bags.square().sum().backward()
            results.append((bags.detach().cpu(), weight.grad.cpu()))
        torch.testing.assert_close(results[1], results[0])


def test_kernels_see_memory_of_another_dtype():
    x = torch.randn(5, 64).to("spyre")

    torch.testing.assert_close((x.view(torch.int32) & 255).cpu(), x.cpu().view(torch.int32) & 255)
