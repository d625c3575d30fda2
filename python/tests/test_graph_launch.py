"""`GraphLaunch`, which the modules of compiled graphs call: one call makes results and queues a kernel."""

import numpy as np
import pytest
import torch

from torch_spyre import _C

SCALED = """
kernel scaled(r, c) {
    in x: float32[r, c]
    out y: float32[r, c]
    scalar k: f64
    y = x * f32(k)
}
"""


@pytest.fixture(scope="module")
def kernel():
    return _C._compile_kernel(SCALED)


def scaled(kernel, size=(2, 3), stride=(3, 1), offset=0, device=0):
    """A launch on a view of one buffer, whose result is dense."""
    results = [(torch.float32, size, (size[1], 1))]
    return _C.GraphLaunch(
        kernel, device, (1, 0, 1), results, [(0, size, stride, offset), (1, size, (size[1], 1), 0)]
    )


def test_it_makes_the_result(kernel):
    x = torch.randn(2, 3)
    y = scaled(kernel)(x.to("spyre"), 2.0)
    assert (y.device.type, y.dtype, y.shape, y.stride()) == ("spyre", torch.float32, (2, 3), (3, 1))
    assert torch.equal(y.cpu(), x * 2)


def test_it_sees_buffers_through_views(kernel):
    x = torch.randn(4, 5)
    launch = scaled(kernel, size=(3, 4), stride=(1, 5), offset=1)
    assert torch.equal(launch(x.to("spyre"), 1.0).cpu(), x[:, 1:4].t())
    base = torch.randn(6, 5)
    part = base.to("spyre")[2:]  # the offset of a tensor counts, too
    assert torch.equal(launch(part, 1.0).cpu(), base[2:][:, 1:4].t())


def test_a_buffer_may_have_another_layout(kernel):
    x = torch.randn(70, 66)
    launch = scaled(kernel, size=(70, 66), stride=(66, 1))
    for _ in range(3):
        assert torch.equal(launch(x.to("spyre", stick_dims=[0]), 3.0).cpu(), x * 3)
        assert torch.equal(launch(x.to("spyre"), 3.0).cpu(), x * 3)


def placed(kernel, layout, size=(70, 66), numbers=0):
    """A launch whose result has a layout."""
    stride = (size[1], 1)
    operands = [(0, size, stride, 0), (1, size, stride, 0)]
    return _C.GraphLaunch(kernel, 0, (1, numbers, 1), [(torch.float32, size, stride, layout)], operands)


def test_a_result_may_have_a_layout(kernel):
    x = torch.randn(70, 66)
    whole = _C.SpyreTensorLayout([70, 66], [66, 1], torch.float32, [1, 0])
    for layout, expected in (([0], [0]), ([0, 1], [0, 1]), ([], []), ([-2], [0]), (whole, [0])):
        made = placed(kernel, layout)(x.to("spyre"), 3.0)
        assert made.get_stick_dims() == expected
        assert torch.equal(made.cpu(), x * 3)
    launch = placed(kernel, [0], size=(-1, -2), numbers=2)
    for size in ((3, 40), (64, 65), (1, 1), (0, 4)):
        x = torch.randn(size)
        made = launch(x.to("spyre"), *size, 2.0)
        assert made.device_tensor_layout() == made.to(stick_dims=[0]).device_tensor_layout()
        assert torch.equal(made.cpu(), x * 2)


def test_layouts_that_do_not_fit_are_refused(kernel):
    with pytest.raises(IndexError, match="2"):
        placed(kernel, [2])
    with pytest.raises(RuntimeError, match="twice|more than once|again"):
        placed(kernel, [0, 0])
    with pytest.raises(RuntimeError, match="the tensor needs"):
        placed(kernel, _C.SpyreTensorLayout([8, 8], [8, 1], torch.float32, [0, 1]))
    with pytest.raises(RuntimeError, match="IEEE_FP16"):
        placed(kernel, _C.SpyreTensorLayout([70, 66], [66, 1], torch.float16, [0, 1]))
    with pytest.raises(TypeError):
        placed(kernel, "rows")
    launch = placed(kernel, _C.SpyreTensorLayout([8, 8], [8, 1], torch.float32, [0, 1]), size=(-1, -2), numbers=2)
    with pytest.raises(RuntimeError, match="the tensor needs"):
        launch(torch.ones(70, 66, device="spyre"), 70, 66, 1.0)
    assert launch(torch.ones(8, 8, device="spyre"), 8, 8, 1.0).sum().item() == 64


def test_sizes_are_given_at_the_call(kernel):
    results = [(torch.float32, (-1, -2), (-2, 1))]
    operands = [(0, (-1, -2), (-2, 1), 0), (1, (-1, -2), (-2, 1), 0)]
    launch = _C.GraphLaunch(kernel, 0, (1, 2, 1), results, operands)
    for size in ((2, 3), (5, 1), (64, 65), (0, 4), (2, 3)):
        x = torch.randn(size)
        assert torch.equal(launch(x.to("spyre"), *size, 0.5).cpu(), x * 0.5)


def test_what_is_written_has_another_version():
    text = "kernel fill(n) {\n inout x: float32[n]\n x = x + 1.0f32\n}"
    launch = _C.GraphLaunch(_C._compile_kernel(text), 0, (1, 0, 0), [], [(0, (8,), (1,), 0)])
    x = torch.zeros(8, device="spyre")
    before = x._version
    assert launch(x) is None
    assert x._version == before + 1
    assert torch.equal(x.cpu(), torch.ones(8))


def test_several_results_are_a_tuple():
    text = "kernel both(n) {\n in x: float32[n]\n out y: float32[n]\n out z: int64[n]\n y = neg(x)\n z = i64(x)\n}"
    results = [(torch.float32, (5,), (1,)), (torch.int64, (5,), (1,))]
    views = [(at, (5,), (1,), 0) for at in range(3)]
    y, z = _C.GraphLaunch(_C._compile_kernel(text), 0, (1, 0, 0), results, views)(torch.ones(5, device="spyre"))
    assert y.tolist() == [-1.0] * 5
    assert z.tolist() == [1] * 5


def test_what_is_no_buffer_is_refused(kernel):
    launch = scaled(kernel)
    x = torch.randn(2, 3).to("spyre")
    with pytest.raises(TypeError, match="scaled: argument 0 is not a tensor$"):
        launch(np.zeros((2, 3)), 1.0)
    with pytest.raises(TypeError, match="argument 0 is not a tensor on spyre"):
        launch(torch.zeros(2, 3), 1.0)
    with pytest.raises(TypeError, match="call resolve_conj"):
        launch(torch.view_as_complex(torch.ones(2, 3, 2)).to("spyre").conj(), 1.0)
    with pytest.raises(TypeError, match="scaled takes 2 arguments, and 1 are given"):
        launch(x)
    with pytest.raises(TypeError):
        launch(x, "2")
    with pytest.raises(RuntimeError, match="float64"):
        launch(torch.zeros(2, 3, dtype=torch.float64).to("spyre"), 1.0)
    with pytest.raises(RuntimeError):  # the view reaches past the storage
        launch(torch.zeros(2, 2).to("spyre"), 1.0)
    assert torch.equal(launch(x, 1.0).cpu(), x.cpu())


def test_a_launch_fits_its_kernel(kernel):
    with pytest.raises(ValueError, match="the kernel has 2 tensors and 1 scalars, not 1 and 1"):
        _C.GraphLaunch(kernel, 0, (1, 0, 1), [], [(0, (2, 3), (3, 1), 0)])
    with pytest.raises(ValueError, match="there are 2 operands, and 1152921504606846976 buffers"):
        _C.GraphLaunch(kernel, 0, (1 << 60, 0, 1), [], [(0, (2, 3), (3, 1), 0), (1, (2, 3), (3, 1), 0)])
    with pytest.raises(ValueError, match="there is no buffer 2"):
        _C.GraphLaunch(kernel, 0, (1, 0, 1), [], [(0, (2, 3), (3, 1), 0), (2, (2, 3), (3, 1), 0)])
    with pytest.raises(ValueError, match="a size, a stride or an offset is"):
        _C.GraphLaunch(kernel, 0, (2, 0, 1), [], [(0, (-1, 3), (3, 1), 0), (1, (2, 3), (3, 1), 0)])


def test_a_result_without_memory_is_torch_s_own_error(kernel):
    size = (1 << 20, 1 << 20)
    operands = [(0, size, (0, 0), 0), (1, size, (size[1], 1), 0)]
    launch = _C.GraphLaunch(kernel, 0, (1, 0, 1), [(torch.float32, size, (size[1], 1))], operands)
    before = torch.spyre.memory_allocated()
    x = torch.ones(1, device="spyre")
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        launch(x, 1.0)
    assert torch.spyre.memory_allocated() <= before + 512


def test_every_launch_is_in_a_trace(kernel):
    launch = scaled(kernel)
    x = torch.randn(2, 3).to("spyre")
    for _ in range(4):
        launch(x, 2.0)  # it is known by now
    with torch.profiler.profile() as profile:
        launch(x, 2.0)
        torch.spyre.synchronize()
    assert [event.name for event in profile.events()].count("launch_kernel:scaled") == 1


def test_another_device_and_a_forked_child_are_refused(python):
    code = """
        import os, torch
        from torch_spyre import _C
        kernel = _C._compile_kernel(os.environ["KERNEL"])
        launch = _C.GraphLaunch(kernel, 0, (1, 0, 1), [(torch.float32, (2, 3), (3, 1))],
                                [(0, (2, 3), (3, 1), 0), (1, (2, 3), (3, 1), 0)])
        try:
            launch(torch.ones(2, 3, device="spyre:1"), 1.0)
        except RuntimeError as error:
            print(error)
        x = torch.ones(2, 3, device="spyre")
        launch(x, 1.0)
        torch.spyre.synchronize()
        if os.fork() == 0:
            try:
                launch(x, 1.0)
            except RuntimeError as error:
                print("fork" in str(error), flush=True)
            os._exit(0)
        os.wait()
    """
    found = python(code, AIU_WORLD_SIZE="2", KERNEL=SCALED)
    assert "argument 0 is on spyre:1, and the graph was compiled for spyre:0" in found.stdout
    assert "True" in found.stdout
