"""Kernels from their text: compiled, launched on tensors, and refused in words."""

from __future__ import annotations

import os

import pytest
import torch

CARD = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"
WAITS = os.environ.get("SPYRE_LAUNCH_BLOCKING") == "1"

AXPY = """
kernel axpy(i, j) {
    in x: float32[i, j]
    in y: float32[j]
    out z: float32[i, j]
    scalar a: f32
    z = a * x + y
}
"""
MOMENTS = """
kernel moments(i, j) {
    in x: float32[i, j]
    out total: float32[i]
    out largest: float32[i]
    total = sum<j>(x)
    largest = max<j>(x)
}
"""


def numbers(*size: int) -> torch.Tensor:
    """Small whole numbers: sums and products of them are exact."""
    return torch.randint(-4, 5, size, generator=torch.Generator().manual_seed(1)).float()


def test_a_kernel_is_a_function_of_tensors_in_their_order():
    axpy = torch.spyre.compile(AXPY)
    x, y = numbers(70, 130), numbers(130)
    z = torch.empty(70, 130, device="spyre")
    assert axpy(x.to("spyre"), y.to("spyre"), z, a=3) is None
    assert torch.equal(z.cpu(), 3 * x + y)


def test_tensors_are_given_by_name_too():
    axpy = torch.spyre.compile(AXPY)
    x, y = numbers(5, 6), numbers(6)
    z = torch.empty(5, 6, device="spyre")
    axpy(z=z, y=y.to("spyre"), a=-0.5, x=x.to("spyre"))
    assert torch.equal(z.cpu(), -0.5 * x + y)


def test_outputs_that_are_not_given_are_made():
    x = numbers(20, 33)
    z = torch.spyre.compile(AXPY)(x.to("spyre"), y=x[0].to("spyre"), a=2)
    assert z.device.type == "spyre" and torch.equal(z.cpu(), 2 * x + x[0])
    total, largest = torch.spyre.compile(MOMENTS)(x.to("spyre"))
    assert torch.equal(total.cpu(), x.sum(1)) and torch.equal(largest.cpu(), x.amax(1))
    kept = torch.empty(20, device="spyre")
    only = torch.spyre.compile(MOMENTS)(x.to("spyre"), largest=kept)
    assert torch.equal(only.cpu(), x.sum(1)) and torch.equal(kept.cpu(), x.amax(1))


def test_a_text_is_compiled_once():
    kernel = torch.spyre.compile(AXPY)
    assert torch.spyre.compile(AXPY) is kernel
    assert torch.spyre.compile(kernel.text)(numbers(2, 3).to("spyre"), numbers(3).to("spyre"), a=1).shape == (2, 3)
    assert repr(kernel) == (
        "<Kernel axpy(in x: float32[i, j], in y: float32[j], out z: float32[i, j], float a)>"
    )


def test_scalars_are_whole_numbers_and_truths_too():
    shift = torch.spyre.compile(
        """
        kernel shift(i) {
            in x: int64[i]
            out y: int64[i]
            scalar by: i64
            scalar negates: bool
            y = where(negates, -x, x) + by
        }
        """
    )
    x, far = torch.arange(100), 2**20 if CARD else 2**40  # the card has 32 bits
    assert torch.equal(shift(x.to("spyre"), by=far, negates=True).cpu(), far - x)
    assert torch.equal(shift(x.to("spyre"), by=-7, negates=False).cpu(), x - 7)
    with pytest.raises(TypeError, match="'by' is 1.5, which is no int"):
        shift(x.to("spyre"), by=1.5, negates=False)


def test_launches_are_queued_on_the_current_stream():
    axpy = torch.spyre.compile(AXPY)
    x = numbers(64, 64)
    with torch.spyre.Stream() as stream:
        z = axpy(x.to("spyre"), x[0].to("spyre"), a=2)
    stream.synchronize()
    assert torch.equal(z.cpu(), 2 * x + x[0])


def test_an_output_counts_as_changed():
    x, z = numbers(4, 4).to("spyre"), torch.empty(4, 4, device="spyre")
    before = x._version, z._version
    torch.spyre.compile(AXPY)(x, x[0], z, a=1)
    assert (x._version, z._version) == (before[0], before[1] + 1)


def test_a_kernel_is_launched_on_the_device_of_its_tensors(python):
    python(
        f"""
        import torch
        axpy = torch.spyre.compile({AXPY!r})
        for index in (1, 0, 1):
            x = torch.ones(4, 4).to(f"spyre:{{index}}")
            z = axpy(x, x[0], a=2)
            assert z.device == x.device and z.cpu().eq(3).all()
        torch.spyre.reset_device(1)
        x = torch.ones(4, 4).to("spyre:1")
        assert axpy(x, x[0], a=2).cpu().eq(3).all()
        """,
        AIU_WORLD_SIZE="2",
    )


# What is refused.


def test_a_text_that_is_no_kernel_raises_with_its_line_and_column():
    text = "kernel twice(i) {\n    in x: float32[i]\n    out y: float32[i]\n    y = z * 2\n}"
    with pytest.raises(ValueError, match="line 4, column 9: nothing is called `z`") as caught:
        torch.spyre.compile(text)
    assert str(caught.value).endswith("\n        y = z * 2\n            ^")
    with pytest.raises(ValueError, match="line 1, column 1"):
        torch.spyre.compile("")
    with pytest.raises(TypeError):
        torch.spyre.compile(3)


def test_a_kernel_without_a_plan_raises():
    text = "kernel k(i, j) {\n    in x: float32[i]\n    out y: float32[i]\n    y = x + f32(size(j))\n}"
    with pytest.raises(ValueError, match="kernel k: no tensor has the dim `j`"):
        torch.spyre.compile(text)


def test_arguments_that_the_kernel_has_not_are_type_errors():
    axpy = torch.spyre.compile(AXPY)
    x = numbers(4, 4).to("spyre")
    for tensors, named, text in [
        ((x, x[0], x, x), {"a": 1}, "takes 3 tensors, and 4 were given"),
        ((x, x[0]), {"a": 1, "w": x}, "has no operand or scalar 'w'"),
        ((x, x[0]), {"a": 1, "x": x}, "was given 'x' twice"),
        ((x,), {"a": 1}, "was not given 'y'"),
        ((x, x[0]), {}, "was not given 'a'"),
        ((x, 3.0), {"a": 1}, "'y' is a float, not a tensor"),
        ((x, x[0]), {"a": "1.x"}, "'a' is '1.x', which is no float"),
    ]:
        with pytest.raises(TypeError, match=text):
            axpy(*tensors, **named)


def test_tensors_that_do_not_fit_are_runtime_errors():
    axpy = torch.spyre.compile(AXPY)
    x = numbers(4, 5).to("spyre")
    with pytest.raises(RuntimeError, match="dim j is 5 in tensor \"x\", but 4 in tensor \"y\""):
        axpy(x, x[:, 0], a=1)
    with pytest.raises(RuntimeError, match="holds float64, and the plan was made for float32|float64"):
        axpy(x, x[0].to(torch.float64), a=1)
    with pytest.raises(RuntimeError, match="has 1 dimensions, and the plan expects 2"):
        axpy(x[0], x[0], torch.empty(5, device="spyre"), a=1)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        axpy(x, numbers(5), a=1)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on spyre"):
        axpy(numbers(4, 5), numbers(5), a=1)
    torch.spyre.synchronize()


@pytest.mark.skipif(WAITS, reason="each launch waits, and raises itself")
def test_an_index_out_of_range_is_raised_by_who_waits():
    rows = torch.spyre.compile(
        """
        kernel rows(t, i, j) {
            in table: float32[i, j]
            in at: int64[t]
            out y: float32[t, j]
            y = table[at, j]
        }
        """
    )
    rows(numbers(4, 5).to("spyre"), torch.tensor([0, 9]).to("spyre"))
    with pytest.raises(IndexError, match=r"9.*4[\s\S]*test_compiled_kernels.py"):
        torch.spyre.synchronize()


# Large tensors, which the card walks over in the order of memory if they all lie alike.


@pytest.mark.parametrize("size", [(512, 128), (513, 128), (300, 250), (70000, 1), (3, 512, 64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bfloat16], ids=str)
def test_large_tensors_are_computed_element_by_element(size, dtype):
    dims = ", ".join("abc"[: len(size)])
    name = str(dtype).removeprefix("torch.")
    kernel = torch.spyre.compile(
        f"""
        kernel larger({dims}) {{
            in x: {name}[{dims}]
            in y: {name}[{dims}]
            out z: {name}[{dims}]
            z = where(x < y, y, x) + x
        }}
        """
    )
    x, y = numbers(*size).to(dtype), numbers(*size).flip(0).to(dtype)
    expected = torch.maximum(x, y) + x
    there = x.to("spyre")
    assert torch.equal(kernel(there, y.to("spyre")).cpu(), expected)
    kernel(there, y.to("spyre"), there)
    assert torch.equal(there.cpu(), expected), "in its place"


def test_large_tensors_that_lie_otherwise_are_met_element_by_element():
    axpy = torch.spyre.compile(AXPY.replace("in y: float32[j]", "in y: float32[i, j]"))
    x, y = numbers(512, 256), numbers(256, 512).t()
    for stick_dims in ([0], [1]):
        z = torch.empty(512, 256, device="spyre")
        axpy(x.to("spyre", stick_dims=stick_dims), y.to("spyre"), z, a=2)
        assert torch.equal(z.cpu(), 2 * x + y)
    part = numbers(1024, 256).to("spyre")[256:768]
    assert torch.equal(axpy(part, x.to("spyre"), a=1).cpu(), part.cpu() + x)


DOUBLE = """
kernel double_exp(i) {
    in x: float64[i]
    out y: float64[i]
    y = 2f64 * exp(x)
}
"""
DOUBLE_BACKWARD = """
kernel double_exp_backward(i) {
    in grad_y: float64[i]
    in y: float64[i]
    out grad_x: float64[i]
    grad_x = grad_y * y
}
"""
AXPY_BACKWARD = """
kernel axpy_backward(i, j) {
    in grad_z: float32[i, j]
    out grad_x: float32[i, j]
    out grad_y: float32[j]
    scalar a: f32
    grad_x = a * grad_z
    grad_y = sum<i>(grad_z)
}
"""


def test_a_kernel_without_a_gradient_refuses_inputs_that_require_one():
    axpy = torch.spyre.compile(AXPY)
    x = numbers(3, 4).to("spyre").requires_grad_()
    y = numbers(4).to("spyre")

    for stream in (torch.spyre.default_stream(), torch.spyre.Stream()):
        with stream, pytest.raises(RuntimeError, match=r"axpy.*'x' requires grad.*backward=.*detach.*no_grad"):
            axpy(x, y, a=2)
    with torch.no_grad():
        assert not axpy(x, y, a=2).requires_grad
    assert torch.equal(axpy(x.detach(), y, a=2).cpu(), 2 * x.detach().cpu() + y.cpu())
    with pytest.raises(RuntimeError, match="'y' requires grad"):
        axpy(x.detach(), y.clone().requires_grad_(), a=2)


def test_a_launch_from_a_folder_refuses_tensors_that_require_grad(tmp_path):
    x = torch.ones(3, device="spyre", requires_grad=True)
    with pytest.raises(RuntimeError, match="tensor 0 requires grad.*autograd.Function"):
        torch.spyre.launch_kernel(tmp_path, [x, torch.empty(3, device="spyre")])


def test_a_kernel_with_a_function_for_its_gradient_is_differentiated():
    axpy = torch.spyre.compile(AXPY, backward=lambda grad_z, a: (a * grad_z, grad_z.sum(0)))
    w = torch.ones(2, 3, device="spyre", requires_grad=True)
    y = torch.ones(3, device="spyre", requires_grad=True)

    for _ in range(3):
        w.grad = y.grad = None
        (axpy(w, y, a=2) + w).sum().backward()
        assert torch.equal(w.grad.cpu(), torch.full((2, 3), 3.0))
        assert torch.equal(y.grad.cpu(), torch.full((3,), 2.0))


def test_a_kernel_with_a_kernel_for_its_gradient_is_differentiated():
    axpy = torch.spyre.compile(AXPY, backward=torch.spyre.compile(AXPY_BACKWARD))
    x, y = numbers(5, 6), numbers(6)
    ours = [part.to("spyre").requires_grad_() for part in (x, y)]
    theirs = [part.clone().requires_grad_() for part in (x, y)]
    weights = numbers(5, 6)

    (axpy(*ours, a=-3) * weights.to("spyre")).sum().backward()
    ((-3 * theirs[0] + theirs[1]) * weights).sum().backward()

    for our, their in zip(ours, theirs, strict=True):
        assert torch.equal(our.grad.cpu(), their.grad)


@pytest.mark.skipif(CARD, reason="the card has no float64")
def test_gradients_of_kernels_are_those_of_finite_differences():
    twice = torch.spyre.compile(DOUBLE, backward=lambda grad_y, x: grad_y * 2 * x.exp())
    kernel = torch.spyre.compile(DOUBLE, backward=torch.spyre.compile(DOUBLE_BACKWARD))
    x = torch.linspace(-1, 1, 7, dtype=torch.float64, device="spyre").requires_grad_()

    assert torch.autograd.gradcheck(twice, (x,)) and torch.autograd.gradcheck(kernel, (x,))
    assert torch.autograd.gradgradcheck(twice, (x,))
    with pytest.raises(RuntimeError, match="double_exp_backward.*requires grad"):
        torch.autograd.grad(kernel(x).sum(), x, create_graph=True)


def test_a_gradient_for_one_of_two_outputs_counts_the_other_as_zero():
    moments = torch.spyre.compile(
        MOMENTS, backward=lambda grad_total, grad_largest, x: (grad_total[:, None] + 0 * x + grad_largest[:, None] * 5,)
    )
    x = numbers(4, 5).to("spyre").requires_grad_()
    total, _ = moments(x)
    total.sum().backward()
    assert torch.equal(x.grad.cpu(), torch.ones(4, 5))


def test_what_a_gradient_cannot_have_is_refused_in_words():
    with pytest.raises(TypeError, match=r"its backward takes 'grad_w', which is none of a, grad_z"):
        torch.spyre.compile(AXPY, backward=lambda grad_w: grad_w)
    short = torch.spyre.compile(AXPY, backward=lambda grad_z: (grad_z,))
    x, y = numbers(3, 4).to("spyre").requires_grad_(), numbers(4).to("spyre")
    with pytest.raises(RuntimeError, match="gave 1 gradients, not one for each of x, y"):
        short(x, y, a=1).sum().backward()
    with pytest.raises(RuntimeError, match="'z' would be written in place"):
        short(x, y, torch.empty(3, 4, device="spyre"), a=1)


# Tiles.


def test_a_kernel_that_is_made_for_a_tile_takes_larger_tensors():
    axpy = torch.spyre.compile(AXPY, max_tile=64)
    assert axpy is torch.spyre.compile(AXPY, max_tile=64) is not torch.spyre.compile(AXPY)
    x, y = numbers(100, 200), numbers(200)
    on_device = x.to("spyre"), y.to("spyre")
    axpy(*on_device, a=3)
    torch.spyre.synchronize()
    with torch.spyre.trace() as trace:
        z = axpy(*on_device, a=3)
        torch.spyre.synchronize()
    assert torch.equal(z.cpu(), 3 * x + y) and trace.kernels == 2 * 4


def test_a_reduced_dim_is_cut_too():
    moments = torch.spyre.compile(MOMENTS, max_tile=64)
    x = numbers(10, 1000)
    total, largest = moments(x.to("spyre"))
    assert torch.equal(total.cpu(), x.sum(1)) and torch.equal(largest.cpu(), x.amax(1))
    with torch.spyre.trace() as trace:
        moments(x.to("spyre"))
        torch.spyre.synchronize()
    assert trace.kernels == 16


@pytest.mark.parametrize("max_tile", [0, -1, 1 << 32])
def test_tiles_without_elements_are_refused(max_tile):
    with pytest.raises(ValueError, match=f"max_tile is {max_tile}: give the most elements"):
        torch.spyre.compile(AXPY, max_tile=max_tile)


PRODUCT = """
import torch
a, b = torch.ones(8, 5000, dtype=torch.float16), torch.ones(5000, 70, dtype=torch.float16)
on_device = a.to("spyre"), b.to("spyre")
torch.mm(*on_device)
torch.spyre.synchronize()
with torch.spyre.trace() as trace:
    c = torch.mm(*on_device)
    torch.spyre.synchronize()
print(trace.kernels, c.cpu().unique().tolist())
"""


@pytest.mark.parametrize(
    ("environment", "kernels"),
    [
        ({"SPYRE_PROFILE": "open"}, 1),
        ({"SPYRE_PROFILE": "open", "SPYRE_MAX_TILE": "64"}, 2 * 79),
        ({"SPYRE_PROFILE": "card"}, 2),
        ({"SPYRE_PROFILE": "card", "SPYRE_MAX_TILE": "2500"}, 2),
    ],
)
def test_operators_are_tiled_by_the_card_and_by_a_setting(python, environment, kernels):
    assert python(PRODUCT, **environment).stdout.split() == [str(kernels), "[5000.0]"]
