"""Factors of matrices, and what is solved with them, on the card: as the CPU does, and without it."""

import pytest
import torch

from conftest import needs_spyre

pytestmark = [needs_spyre, pytest.mark.usefixtures("no_fallback")]

GENERATOR = torch.Generator().manual_seed(11)


def random(*size):
    return torch.randn(*size, dtype=torch.float64, generator=GENERATOR)


def positive(*batch, size):
    root = random(*batch, size, size)
    return root @ root.mT + size * torch.eye(size, dtype=torch.float64)


SQUARE, BATCH, LARGE = random(5, 5), random(2, 3, 7, 7), random(33, 33) + 8 * torch.eye(33, dtype=torch.float64)
TALL, FLAT = random(2, 9, 4), random(4, 9)
POSITIVE, POSITIVES = positive(size=6), positive(2, 3, size=17)

CASES = {
    "inverse": (torch.linalg.inv, BATCH),
    "inverse of a large one": (torch.linalg.inv, LARGE),
    "inverse of one element": (torch.linalg.inv, random(1, 1)),
    "solution": (torch.linalg.solve, BATCH, random(2, 3, 7, 2)),
    "solution of a vector": (torch.linalg.solve, LARGE, random(33)),
    "solution from the right": (lambda a, b: torch.linalg.solve(a, b, left=False), BATCH, random(3, 2, 7)),
    "determinant": (torch.linalg.det, BATCH),
    "determinant of a turned one": (lambda a: torch.linalg.det(a.mT), SQUARE),
    "logarithm of a determinant": (torch.linalg.slogdet, BATCH),
    "triangles": (torch.linalg.lu, BATCH),
    "triangles of a tall one": (torch.linalg.lu, TALL),
    "triangles of a flat one": (torch.linalg.lu, FLAT),
    "factors, then a solution": (lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b), BATCH, random(7, 3)),
    "upper triangle": (lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True), LARGE, random(33, 2)),
    "lower triangle": (lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False), BATCH, random(7, 3)),
    "from the right": (
        lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False, left=False), BATCH, random(2, 3, 4, 7)
    ),
    "ones on the diagonal": (
        lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True, unitriangular=True), SQUARE, random(5, 2)
    ),
    "roots": (lambda a: torch.linalg.cholesky(a @ a.mT), POSITIVES),
    "roots, upper": (lambda a: torch.linalg.cholesky(a @ a.mT, upper=True), POSITIVE),
    "solution by roots": (lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), POSITIVE, random(6, 2)),
    "inverse by roots": (lambda a: torch.cholesky_inverse(torch.linalg.cholesky(a)), POSITIVES),
    "reflections": (torch.linalg.qr, TALL),
    "reflections of a flat one": (torch.linalg.qr, FLAT),
    "all reflections": (lambda a: torch.linalg.qr(a, mode="complete"), BATCH),
    "product of reflections": (torch.linalg.householder_product, TALL, random(2, 4).sigmoid()),
}  # fmt: skip


def outcome(act, arguments, device, dtype):
    """Results, and the gradients of all arguments."""
    leaves = [argument.to(device, dtype).detach().requires_grad_() for argument in arguments]
    results = act(*leaves)
    results = [results] if isinstance(results, torch.Tensor) else [result for result in results if result.requires_grad]
    slopes = [torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(device, dtype) for result in results]
    torch.autograd.backward(results, slopes)
    return [tensor.detach().cpu() for tensor in [*results, *(leaf.grad for leaf in leaves)]]


@pytest.mark.parametrize("name", CASES)
def test_factors_and_their_gradients_are_the_cpus(name):
    act, *arguments = CASES[name]

    given = outcome(act, arguments, "spyre", torch.float64)

    torch.testing.assert_close(given, outcome(act, arguments, "cpu", torch.float64))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case) == 2])
def test_float32_is_rounded_at_the_end_only(name):
    act, argument = CASES[name]
    narrow = argument.float()
    expected = act(narrow.double())

    given = act(narrow.to("spyre"))

    pairs = [(given, expected)] if isinstance(given, torch.Tensor) else zip(given, expected, strict=True)
    for left, right in pairs:
        assert left.dtype == torch.float32
        torch.testing.assert_close(left.cpu(), right.float())


@pytest.mark.parametrize("call", [
    torch.linalg.cholesky, torch.cholesky, lambda a: torch.linalg.cholesky(a, upper=True), torch.cholesky_inverse,
    lambda a: torch.cholesky(a, out=torch.empty(0, device=a.device)), lambda a: torch.geqrf(a)[0],
    lambda a: torch.ormqr(*torch.geqrf(a), a),
    lambda a: torch.linalg.qr(a, out=(torch.empty(0, device=a.device), torch.empty(0, device=a.device)))[1],
])  # fmt: skip
def test_factors_lie_by_columns(call):
    for a in (POSITIVES.float(), POSITIVES[0, :, :1, :1].float()):
        assert call(a.to("spyre")).stride() == call(a).stride()


def anew(a, *dtypes):
    """Results without elements, to be resized."""
    outs = [torch.empty(0, dtype=dtype, device=a.device) for dtype in (torch.float32, *dtypes)]
    return outs[0] if len(outs) == 1 else tuple(outs)


SOLUTIONS = {
    "inverse": lambda a, b: torch.linalg.inv(a),
    "inverse, out": lambda a, b: torch.linalg.inv(a, out=anew(a)),
    "inv_ex, out": lambda a, b: torch.linalg.inv_ex(a, out=anew(a, torch.int32))[0],
    "triangles": lambda a, b: torch.linalg.lu_factor(a)[0],
    "triangles, out": lambda a, b: torch.linalg.lu_factor(a, out=anew(a, torch.int32))[0],
    "solution": torch.linalg.solve,
    "solution, out": lambda a, b: torch.linalg.solve(a, b, out=anew(a)),
    "solution of vectors": lambda a, b: torch.linalg.solve(a, b[..., 0]),
    "solution from the right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
    "solution from the right, out": lambda a, b: torch.linalg.solve(a, b.mT, left=False, out=anew(a)),
    "solve_ex, out": lambda a, b: torch.linalg.solve_ex(a, b, out=anew(a, torch.int32))[0],
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
    "lu_solve from the right": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b.mT, left=False),
    "lu_solve, out": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, out=anew(a)),
    "upper triangle": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
    "upper triangle from the right": lambda a, b: torch.linalg.solve_triangular(a, b.mT, upper=True, left=False),
    "upper triangle, out": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, out=anew(a)),
    "product of reflections": lambda a, b: torch.linalg.householder_product(*torch.geqrf(a)),
}


@pytest.mark.parametrize("name", SOLUTIONS)
@pytest.mark.parametrize("columns", [1, 4])
def test_solutions_lie_as_the_cpus_do(name, columns):
    a, b = BATCH.float(), random(2, 3, 7, columns).float()

    given = SOLUTIONS[name](a.to("spyre"), b.to("spyre"))

    assert given.stride() == SOLUTIONS[name](a, b).stride()


def test_pivots_and_reflections_are_those_of_the_cpu():
    for a in (BATCH, TALL, FLAT):
        expected, given = torch.linalg.lu_factor_ex(a), torch.linalg.lu_factor_ex(a.to("spyre"))
        torch.testing.assert_close([part.cpu() for part in given], list(expected))
        expected, given = torch.geqrf(a), torch.geqrf(a.to("spyre"))
        torch.testing.assert_close([part.cpu() for part in given], list(expected))


def test_a_matrix_that_cannot_be_factorised_is_reported_as_on_the_cpu():
    bad = POSITIVE.clone()
    bad[3, 3] = -1.0
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])

    assert int(torch.linalg.cholesky_ex(bad.to("spyre")).info) == int(torch.linalg.cholesky_ex(bad).info) == 4
    assert int(torch.linalg.inv_ex(singular.to("spyre")).info) == int(torch.linalg.inv_ex(singular).info) == 2
    with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 4 is not positive-definite"):
        torch.linalg.cholesky(bad.to("spyre"))
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.solve(singular.to("spyre"), torch.ones(2).to("spyre"))


def test_matrices_without_rows_have_factors():
    empty = torch.zeros(3, 0, 0).to("spyre")

    assert torch.linalg.inv(empty).shape == (3, 0, 0)
    assert torch.linalg.cholesky(empty).shape == (3, 0, 0)
    torch.testing.assert_close(torch.linalg.det(empty).cpu(), torch.ones(3))
