"""Sparse tensors, COO and CSR, compared with the CPU: values stay on the device."""

import copy
import io

import pytest
import torch
from torch import nn

from conftest import needs_spyre

pytestmark = needs_spyre

DENSE = torch.tensor([[0.0, 1.5, 0.0, -2.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, -1.0, 4.0]])
OTHER = torch.tensor([[1.0, 2.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0], [0.0, 0.0, 6.0, 7.0]])
FACTOR = torch.arange(8.0).view(4, 2) - 3


def coo(device, dense=DENSE):
    return dense.to(device).to_sparse()


def repeated(device):
    """Places that come twice, in no order."""
    indices = torch.tensor([[2, 0, 2, 1, 0], [3, 1, 3, 0, 0]])
    return torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]), (3, 4), device=device)


def hybrid(device):
    """Rows of two numbers each."""
    return torch.sparse_coo_tensor([[2, 0, 2]], torch.arange(6.0).view(3, 2), (4, 2), device=device)


def csr(device, dense=DENSE):
    return dense.to(device).to_sparse_csr()


def assert_same(given, expected):
    if not isinstance(expected, torch.Tensor):
        assert given == expected
        return
    assert given.device.type == "spyre" and given.layout == expected.layout and given.shape == expected.shape
    assert given.dtype == expected.dtype
    if expected.layout == torch.sparse_coo:
        # Zeros may be there or not.
        assert given.is_coalesced() or not expected.is_coalesced()
        assert (given.sparse_dim(), given.dense_dim()) == (expected.sparse_dim(), expected.dense_dim())
        torch.testing.assert_close(given.cpu().to_dense(), expected.to_dense())
        torch.testing.assert_close(given.to_dense().cpu(), expected.to_dense())
    elif expected.layout == torch.sparse_csr:
        torch.testing.assert_close(given.crow_indices().cpu(), expected.crow_indices())
        torch.testing.assert_close(given.col_indices().cpu(), expected.col_indices())
        torch.testing.assert_close(given.values().cpu(), expected.values())
    else:
        torch.testing.assert_close(given.cpu(), expected)


def assert_as_on_cpu(compute):
    assert_same(compute("spyre"), compute("cpu"))


def factor(x):
    return FACTOR.to(x.device)


def dense(x):
    return OTHER.to(x.device)


COO = {
    "to_dense": lambda x: x.to_dense(),
    "coalesce": lambda x: x.coalesce(),
    "clone": lambda x: x.clone(),
    "deepcopy": copy.deepcopy,
    "transpose": lambda x: x.t(),
    "mm": lambda x: torch.sparse.mm(x, factor(x)),
    "at": lambda x: x @ factor(x),
    "mm_from_the_left": lambda x: torch.mm(factor(x).t()[:, :3], x),
    "mv": lambda x: torch.mv(x, factor(x)[:, 0]),
    "addmm": lambda x: torch.sparse.addmm(torch.ones(3, 2).to(x.device), x, factor(x), beta=0.5, alpha=2),
    "addmm_dense": lambda x: torch.addmm(torch.ones(3, 2).to(x.device), x, factor(x)),
    "add": lambda x: x + coo(x.device, OTHER),
    "sub": lambda x: x - coo(x.device, OTHER),
    "add_to_dense": lambda x: dense(x) + x,
    "add_to_dense_in_place": lambda x: dense(x).add_(x, alpha=-2),
    "mul_number": lambda x: x * 2.5,
    "div_number": lambda x: x / 2,
    "mul_in_place": lambda x: x.mul_(3),
    "mul_sparse": lambda x: x * coo(x.device, OTHER),
    "mul_dense": lambda x: x * dense(x),
    "neg": lambda x: -x,
    "abs": torch.abs,
    "sqrt_of_abs": lambda x: x.coalesce().abs().sqrt(),
    "pow": lambda x: x.coalesce() ** 2,
    "relu": lambda x: torch.relu(x.coalesce()),
    "sum": lambda x: x.sum(),
    "sparse_sum": lambda x: torch.sparse.sum(x),
    "sparse_sum_dim": lambda x: torch.sparse.sum(x, 0),
    "softmax": lambda x: torch.sparse.softmax(x.coalesce(), 1),
    "log_softmax": lambda x: torch.sparse.log_softmax(x.coalesce(), 0),
    "index_select": lambda x: x.index_select(0, torch.tensor([2, 0, 2]).to(x.device)),
    "select": lambda x: x[1].to_dense(),
    "select_column": lambda x: x.select(1, 3).to_dense(),
    "narrow_copy": lambda x: x.coalesce().narrow_copy(1, 1, 2),
    "cat": lambda x: torch.cat([x, x]),
    "to_csr": lambda x: x.coalesce().to_sparse_csr(),
    "double": lambda x: x.double(),
    "half": lambda x: x.half(),
    "norm": lambda x: x.norm(),
    "zero": lambda x: x.zero_(),
    "unsqueeze": lambda x: x.unsqueeze(0).to_dense(),
    "sparse_mask": lambda x: dense(x).sparse_mask(x.coalesce()),
    "zeros_like": lambda x: torch.zeros_like(x),
    "sparse_times_sparse": lambda x: torch.sparse.mm(x, x.t()),
    "to_cpu_and_back": lambda x: x.cpu().to(x.device),
    "is_sparse": lambda x: x.is_sparse,
    "nnz": lambda x: x._nnz(),
    "any": lambda x: torch.any(x.coalesce()),
    "copy": lambda x: torch.zeros_like(x).copy_(x),
}
MAKERS = {"coalesced": coo, "repeated": repeated, "empty": lambda device: coo(device, torch.zeros(3, 4))}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", COO)
def test_an_op_on_coordinates_gives_what_the_cpu_gives(name, maker):
    if (name, maker) in {("softmax", "empty"), ("log_softmax", "empty")}:
        pytest.skip("the CPU has no numbers for it")
    assert_as_on_cpu(lambda device: COO[name](MAKERS[maker](device)))


CSR = {
    "to_dense": lambda x: x.to_dense(),
    "to_coo": lambda x: x.to_sparse(),
    "clone": lambda x: x.clone(),
    "mm": lambda x: torch.sparse.mm(x, factor(x)),
    "at": lambda x: x @ factor(x),
    "mv": lambda x: x @ factor(x)[:, 0],
    "addmm": lambda x: torch.addmm(torch.ones(3, 2).to(x.device), x, factor(x), beta=0.5, alpha=2),
    "add": lambda x: x + csr(x.device, OTHER),
    "add_to_dense": lambda x: dense(x) + x,
    "mul_number": lambda x: x * 2.5,
    "mul_sparse": lambda x: x * csr(x.device, OTHER),
    "neg": lambda x: -x,
    "sin": torch.sin,
    "relu": torch.relu,
    "sum": lambda x: x.sum(),
    "sum_dim": lambda x: x.sum(0, keepdim=True).to_dense(),
    "select": lambda x: x[1],
    "transpose": lambda x: x.t().to_dense(),
    "double": lambda x: x.double(),
    "to_cpu_and_back": lambda x: x.cpu().to(x.device),
    "zero": lambda x: x.zero_(),
    "to_csc": lambda x: x.to_sparse_csc().to_dense(),
    "to_bsr": lambda x: x.to_sparse_bsr((3, 2)).to_dense(),
}


@pytest.mark.parametrize("name", CSR)
def test_an_op_on_compressed_rows_gives_what_the_cpu_gives(name):
    assert_as_on_cpu(lambda device: CSR[name](csr(device)))


@pytest.mark.parametrize("name", ["to_dense", "coalesce", "clone", "mul_number", "sum", "to_cpu_and_back", "neg"])
def test_rows_of_numbers_are_values_too(name):
    assert_as_on_cpu(lambda device: COO[name](hybrid(device)))


def test_one_is_made_of_tensors_of_the_device():
    crow, col, values = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([1.0, 2.0])
    assert_as_on_cpu(lambda v: torch.sparse_csr_tensor(crow.to(v), col.to(v), values.to(v), (2, 2)))
    assert_as_on_cpu(lambda v: torch.sparse_coo_tensor(torch.stack([col, col]).to(v), values.to(v)))
    assert_as_on_cpu(lambda v: torch.sparse_coo_tensor((3, 4), device=v))
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor([[0, 9]], [1.0, 2.0], (3,), device="spyre", check_invariants=True)


@pytest.mark.parametrize("maker", [coo, repeated])
def test_both_gradients_of_a_product_are_the_cpus(maker):
    def gradients(device):
        left = maker(device).requires_grad_()
        right = FACTOR.clone().to(device).requires_grad_()
        torch.sparse.mm(left, right).square().sum().backward()
        return left.grad.to_dense(), right.grad

    for given, expected in zip(gradients("spyre"), gradients("cpu"), strict=True):
        assert_same(given, expected)


def test_gradients_reach_dense_tensors_through_sparse_ones():
    def gradient(device):
        x = DENSE.clone().to(device).requires_grad_()
        (x.to_sparse().to_dense() * OTHER.to(device)).sum().backward()
        return x.grad

    assert_as_on_cpu(gradient)


OPTIMISERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "sparse_adam": lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.1),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_embedding_with_sparse_gradients_is_trained_as_on_the_cpu(name):
    def train(device):
        torch.manual_seed(0)
        embedding = nn.Embedding(10, 3, sparse=True).to(device)
        optimiser = OPTIMISERS[name](embedding.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            embedding(torch.tensor([1, 4, 4, 7]).to(device)).square().sum().backward()
            assert embedding.weight.grad.is_sparse
            optimiser.step()
        return embedding.weight.detach()

    assert_as_on_cpu(train)


@pytest.mark.parametrize("maker", [coo, csr])
def test_one_is_saved_and_loaded(maker):
    file = io.BytesIO()
    torch.save(maker("spyre"), file)
    file.seek(0)
    assert_same(torch.load(file), maker("cpu"))


@pytest.mark.parametrize("maker", [coo, csr, repeated])
def test_one_is_printed(maker):
    text = repr(maker("spyre"))
    assert "spyre" in text and "sparse" in text
    assert "<" not in text and ("1.5000" in text or "16." in text)


def test_values_stay_on_the_device():
    torch.spyre.reset_fallback_stats()
    x = repeated("spyre").coalesce()
    (x @ factor(x) + torch.sparse.mm(x * 2, factor(x))).sum()
    (dense(x) + x, x + x, x.to_dense(), coo("spyre"))
    assert torch.spyre.fallback_stats() == {}


def test_an_op_that_no_device_has_names_a_remedy():
    with pytest.raises(NotImplementedError, match=r"aten::cumsum.*sparse.*to_dense"):
        torch.cumsum(coo("spyre"), 0)


def test_tensors_of_two_devices_are_refused():
    with pytest.raises(RuntimeError, match="same device"):
        torch.sparse.mm(coo("spyre"), FACTOR)
    with pytest.raises(RuntimeError, match="same device"):
        OTHER + coo("spyre")
