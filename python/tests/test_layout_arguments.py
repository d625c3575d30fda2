"""Calls that take layouts: factories, `to`, stick dims, the functions that generated code calls."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from torch import Tensor

from layout_cases import CARD, contiguous, halves
from torch_spyre import layouts
from torch_spyre._C import DataFormats, SpyreTensorLayout, get_device_dtype

FP16 = DataFormats.SEN169_FP16 if CARD else DataFormats.IEEE_FP16

# Where layouts can be given.

LAYOUT = SpyreTensorLayout([6, 10], [10, 1], torch.float32, [1, 0])

FACTORIES = {
    "empty": lambda **k: torch.empty(6, 10, **k),
    "empty tuple": lambda **k: torch.empty((6, 10), **k),
    "empty_strided": lambda **k: torch.empty_strided((6, 10), (10, 1), **k),
    "zeros": lambda **k: torch.zeros(6, 10, **k),
    "ones": lambda **k: torch.ones((6, 10), **k),
    "full": lambda **k: torch.full((6, 10), 2.5, **k),
    "rand": lambda **k: torch.rand(6, 10, **k),
    "randn": lambda **k: torch.randn(6, 10, **k),
    "randint": lambda **k: torch.randint(0, 9, (6, 10), dtype=torch.float32, **k),
    "eye": lambda **k: torch.eye(6, 10, **k),
    "tensor": lambda **k: torch.tensor([[float(r * c) for c in range(10)] for r in range(6)], **k),
    "as_tensor": lambda **k: torch.as_tensor([[1.5] * 10] * 6, **k),
    "empty_like": lambda **k: torch.empty_like(torch.ones(6, 10), **k),
    "zeros_like": lambda **k: torch.zeros_like(torch.ones(6, 10), **k),
    "ones_like": lambda **k: torch.ones_like(torch.zeros(6, 10), **k),
    "full_like": lambda **k: torch.full_like(torch.zeros(6, 10), 3, **k),
    "rand_like": lambda **k: torch.rand_like(torch.zeros(6, 10), **k),
    "randn_like": lambda **k: torch.randn_like(torch.zeros(6, 10), **k),
    "randint_like": lambda **k: torch.randint_like(torch.zeros(6, 10), 9, **k),
    "new_empty": lambda **k: torch.ones(3).new_empty((6, 10), **k),
    "new_empty_strided": lambda **k: torch.ones(3).new_empty_strided((6, 10), (10, 1), **k),
    "new_zeros": lambda **k: torch.ones(3).new_zeros((6, 10), **k),
    "new_ones": lambda **k: torch.ones(3).new_ones((6, 10), **k),
    "new_full": lambda **k: torch.ones(3).new_full((6, 10), 4, **k),
    "new_tensor": lambda **k: torch.ones(3).new_tensor([[2.0] * 10] * 6, **k),
}  # fmt: skip
RANDOM = ("rand", "randn", "randint", "rand_like", "randn_like", "randint_like")


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("how", ["device_layout", "stick_dims"])
def test_factories_take_layouts(name, how):
    make = FACTORIES[name]
    chosen = {"device_layout": LAYOUT} if how == "device_layout" else {"stick_dims": [0]}

    made = make(device="spyre", **chosen)

    assert made.device == torch.device("spyre", torch.spyre.current_device())
    assert (made.size(), made.dtype, made.stride()) == ((6, 10), torch.float32, (10, 1))
    assert made.device_tensor_layout() == LAYOUT and made.get_stick_dims() == [0]
    assert make(**chosen).device.type == "spyre", "a layout is for spyre, so that goes without saying"
    assert make(device="spyre", requires_grad=True, **chosen).requires_grad
    assert not name.startswith(RANDOM) or made.cpu().unique().numel() > 3
    if not name.startswith(("empty", "new_empty", *RANDOM)):
        assert torch.equal(made.cpu(), make())
    if name.startswith(RANDOM):
        torch.manual_seed(5)
        first = make(device="spyre", **chosen).cpu()
        torch.manual_seed(5)
        assert torch.equal(first, make(device="spyre").cpu()), "a layout does not change the numbers"


def test_ranges_take_layouts():
    for make in (
        lambda **k: torch.arange(100, dtype=torch.int32, **k),
        lambda **k: torch.linspace(0, 1, 100, **k),
        lambda **k: torch.logspace(0, 1, 100, **k),
        lambda **k: torch.randperm(100, dtype=torch.int32, **k).sort().values,
    ):
        made = make(device="spyre", stick_dims=[0]).cpu()
        assert torch.equal(made, make(device="spyre").cpu()), "a layout does not change the numbers"
        torch.testing.assert_close(made, make())
    scalar = torch.scalar_tensor(3.0, device="spyre", stick_dims=[])
    assert scalar.item() == 3.0 and scalar.get_stick_dims() == []


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_without_a_layout_are_unchanged(name):
    make = FACTORIES[name]
    plain = make()
    assert plain.device.type == "cpu" and plain.device_tensor_layout() is None
    assert make(device_layout=None).device.type == "cpu"
    if name != "as_tensor":
        assert make(stick_dims=None, device_layout=None, requires_grad=True).requires_grad


def test_layouts_are_refused_where_they_make_no_sense():
    layout = SpyreTensorLayout([4, 4], torch.float32)
    x = torch.ones(4, 4)
    with pytest.raises(RuntimeError, match="tensors on 'spyre', not on 'cpu'"):
        torch.empty(4, 4, device="cpu", device_layout=layout)
    with pytest.raises(RuntimeError, match="tensors on 'spyre', not on 'cpu'"):
        x.to("cpu", stick_dims=[0])
    with pytest.raises(TypeError, match="not both"):
        torch.zeros(4, 4, device_layout=layout, stick_dims=[0])
    with pytest.raises(TypeError, match="must be a SpyreTensorLayout, not list"):
        torch.zeros(4, 4, device_layout=[4, 4])
    with pytest.raises(TypeError, match="together with out="):
        torch.zeros(4, 4, out=x, stick_dims=[0])
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(4, 4, pin_memory=True, stick_dims=[0])
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.to("spyre", stick_dims=[2])
    with pytest.raises(RuntimeError, match="stick dimension 0 .* given twice"):
        x.to("spyre", stick_dims=[0, 0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'layout_of'"):
        x.to("spyre", stick_dims=[0], layout_of=3)
    with pytest.raises(TypeError, match="positional"):
        x.to("spyre", torch.float32, False, False, False, stick_dims=[0])
    with pytest.raises(RuntimeError, match="out of range"):
        x.to("spyre:7", stick_dims=[0])
    with pytest.raises(RuntimeError, match="negative"):
        torch.empty(4, -4, stick_dims=[0])
    for ask in (
        torch.spyre.get_stick_dims,
        torch.spyre.get_spyre_tensor_layout,
        lambda t: torch.spyre.set_spyre_tensor_layout(t, layout),
        lambda t: torch.spyre.restickify(t, [0]),
        lambda t: t.set_stick_dims([0]),
    ):
        with pytest.raises(RuntimeError, match="expected a tensor on 'spyre', not on 'cpu'"):
            ask(x)


def test_numbers_that_name_no_layout_are_refused():
    x = torch.ones(4, 4, device="spyre")
    for number in (0, -1, 10**15):
        with pytest.raises(RuntimeError, match="nothing of this kind was handed over"):
            torch.ops.spyre._empty_with_layout([4], [1], number, torch.float32, torch.device("spyre:0"))
        with pytest.raises(RuntimeError, match="nothing of this kind was handed over"):
            torch.ops.spyre._set_layout(x, number)
        with pytest.raises(RuntimeError, match="nothing of this kind was handed over"):
            torch.ops.spyre._relayout_(x, number)


def test_a_device_context_makes_tensors_with_layouts():
    with torch.device("spyre"):
        assert torch.empty(4).device.type == "spyre"
        assert torch.zeros(4, 4, stick_dims=[0]).get_stick_dims() == [0]
        assert torch.arange(5).device.type == "spyre"
    with torch.device("meta"):
        assert torch.ones(4).device.type == "meta"
    assert torch.empty(4).device.type == "cpu"


# `to`.


def test_to_by_all_of_its_signatures():
    x = halves(6, 10)
    other = torch.ones(1, device="spyre")
    for moved, dtype in [
        (x.to("spyre", stick_dims=[0]), torch.float16),
        (x.to(torch.device("spyre:0"), torch.float32, stick_dims=[0]), torch.float32),
        (x.to(device="spyre", dtype=torch.float32, stick_dims=[0]), torch.float32),
        (x.to("spyre", torch.float32, True, True, stick_dims=[0]), torch.float32),
        (x.to(torch.float32, stick_dims=[0]), torch.float32),
        (x.to(torch.float32, False, copy=True, stick_dims=[0]), torch.float32),
        (x.to(other, stick_dims=[0]), torch.float32),
        (x.to(other=other, stick_dims=[0]), torch.float32),
        (x.to(0, stick_dims=[0]), torch.float16),
        (x.to(stick_dims=[0]), torch.float16),
        (x.to(stick_dims=[-2]), torch.float16),
    ]:
        assert (moved.device.type, moved.dtype, moved.get_stick_dims()) == ("spyre", dtype, [0])
        torch.spyre.synchronize()
        assert torch.equal(moved.cpu(), x.to(dtype))


def test_to_the_layout_that_is_there_is_the_tensor_itself():
    x = halves(40, 60).to("spyre", stick_dims=[0])
    layout = x.device_tensor_layout()
    assert x.to(device_layout=layout) is x
    assert x.to("spyre", device_layout=layout) is x
    assert x.to("spyre", torch.float16, stick_dims=[0]) is x
    copied = x.to("spyre", device_layout=layout, copy=True)
    assert copied.data_ptr() != x.data_ptr() and torch.equal(copied.cpu(), x.cpu())
    turned = x.to("spyre", stick_dims=[1])
    assert turned.get_stick_dims() == [1] and torch.equal(turned.cpu(), x.cpu())
    assert x.to("spyre") is x


def test_to_keeps_strides_and_memory_formats():
    x = halves(4, 6, 8).permute(2, 0, 1)
    moved = x.to("spyre", stick_dims=[0])
    assert moved.stride() == x.stride() and torch.equal(moved.cpu(), x)
    plain = x.to("spyre", memory_format=torch.contiguous_format, stick_dims=[0])
    assert plain.is_contiguous() and torch.equal(plain.cpu(), x)
    expanded = halves(1, 8).expand(5, 8)
    assert torch.equal(expanded.to("spyre", stick_dims=[0]).cpu(), expanded)


def test_gradients_go_through_layouts():
    x = torch.randn(6, 10, requires_grad=True)
    (x.to("spyre", stick_dims=[0]) * 2).sum().backward()
    assert x.grad.device.type == "cpu" and torch.equal(x.grad, torch.full((6, 10), 2.0))
    y = torch.randn(6, 10, device="spyre", requires_grad=True)
    (torch.spyre.restickify(y, [0]) * 3).sum().backward()
    assert torch.equal(y.grad.cpu(), torch.full((6, 10), 3.0))


# Stick dimensions.


def test_restickify_moves_values_to_other_sticks():
    values = halves(40, 60, 70)
    tensor = values.to("spyre")
    for dims in ([0], [1], [2], [0, 2], [2, 1], [0, 1, 2], [], [-3], [-1, -2]):
        moved = tensor.restickify(dims)
        assert moved.get_stick_dims() == [dim % 3 for dim in dims]
        assert torch.equal(moved.cpu(), values)
        assert torch.equal(torch.ops.spyre.restickify(moved, [1]).cpu(), values)
        assert torch.equal(torch.spyre.restickify(moved.transpose(0, 2), [1]).cpu(), values.transpose(0, 2))


def test_set_stick_dims_moves_a_storage_and_all_views_of_it():
    values = halves(40, 60)
    tensor = values.to("spyre")
    row, turned, alias = tensor[3], tensor.t(), tensor.detach()
    address, bytes_before = tensor.data_ptr(), torch.accelerator.memory_allocated()

    assert tensor.set_stick_dims([0]) is tensor

    layout = SpyreTensorLayout([40, 60], [60, 1], torch.float16, [1, 0])
    for view in (tensor, row, turned, alias):
        assert view.device_tensor_layout() == layout
    assert (tensor.get_stick_dims(), turned.get_stick_dims()) == ([0], [1])
    assert torch.equal(tensor.cpu(), values) and torch.equal(row.cpu(), values[3])
    assert torch.equal(turned.cpu(), values.t())
    assert tensor.data_ptr() == address
    change = layout.device_bytes() - 128 * 40
    assert torch.accelerator.memory_allocated() - bytes_before == change
    row.fill_(1)
    values[3] = 1
    assert torch.equal(tensor.cpu(), values)
    with pytest.raises(RuntimeError, match="the sticks run along a dimension"):
        row.get_stick_dims()
    with pytest.raises(RuntimeError, match="shows 120 bytes of a storage of 4800"):
        row.set_stick_dims([0])


def test_the_sticks_of_views_have_the_views_names():
    tensor = halves(4, 6, 8).to("spyre", stick_dims=[1])
    assert tensor.get_stick_dims() == [1]
    assert tensor.permute(2, 1, 0).get_stick_dims() == [1]
    assert tensor.transpose(0, 1).get_stick_dims() == [0]
    assert tensor[1].get_stick_dims() == [0]
    assert tensor[:, 2:5].get_stick_dims() == [1]
    assert tensor.unsqueeze(0).get_stick_dims() == [2]


def test_names_come_from_the_devices_module():
    from torch.spyre import DataFormats as formats
    from torch.spyre import SpyreTensorLayout as layout
    from torch.spyre import get_device_dtype as ask

    assert layout is SpyreTensorLayout and formats is DataFormats and ask is get_device_dtype


def test_from_device_brings_tensors_home():
    values = halves(5, 7)
    tensor = values.to("spyre", stick_dims=[0])
    home = tensor.from_device()
    assert home.device.type == "cpu" and torch.equal(home, values)
    assert torch.equal(torch.spyre.from_device(tensor[1:, ::2]), values[1:, ::2])
    assert torch.spyre.from_device(values) is values
    target = torch.empty(5, 7)
    torch.spyre.copy_tensor(tensor, target)
    assert torch.equal(target, values.float())


# The functions that generated code calls.


def test_tensors_are_made_with_layouts():
    layout = SpyreTensorLayout([40, 60], [60, 1], torch.float16, [1, 0])
    made = [
        torch.spyre.spyre_empty_with_layout((40, 60), (60, 1), torch.float16, layout),
        torch.spyre.empty_with_layout((40, 60), layout, torch.float16, torch.device("spyre"), False, None),
        torch.spyre.empty_with_layout(
            (40, 60), layout, torch.float16, "spyre", memory_format=torch.contiguous_format
        ),
        torch.spyre.spyre_empty_strided((40, 60), (60, 1), torch.float16, stick_dims=[0]),
    ]
    for tensor in made:
        assert tensor.device_tensor_layout() == layout
        assert torch.equal(tensor.copy_(halves(40, 60)).cpu(), halves(40, 60))
    plain = torch.spyre.spyre_empty_strided((40, 60), (60, 1), torch.float16, requires_grad=True)
    assert plain.device_tensor_layout() == SpyreTensorLayout([40, 60], torch.float16) and plain.requires_grad


def test_channels_last_with_a_layout():
    make = lambda: torch.empty(2, 3, 4, 5, stick_dims=[1], memory_format=torch.channels_last)  # noqa: E731
    if CARD:
        with pytest.raises(RuntimeError, match="Spyre backend only supports contiguous memory format"):
            make()
    else:
        assert make().is_contiguous(memory_format=torch.channels_last)


def test_memory_is_seen_through_another_layout():
    values = halves(64, 64)
    tensor = values.to("spyre")
    turned = SpyreTensorLayout([1, 64, 64], [64, 1, 64], FP16)

    view = torch.spyre.as_strided_with_layout(tensor, (64, 64), (64, 1), 0, turned)

    assert view.device_tensor_layout() == turned and tensor.device_tensor_layout() != turned
    assert torch.equal(view.cpu(), values.t()), "the same sticks, read as columns"
    assert torch.equal(view[3:5, ::7].cpu(), values.t()[3:5, ::7])
    assert view.detach().device_tensor_layout() == turned
    again = torch.spyre.reinterpret_tensor_with_layout(tensor, (64, 64), (64, 1), 0, turned)
    assert torch.equal(again.cpu(), values.t())
    part = torch.spyre.reinterpret_tensor(tensor, (2, 64), (64, 1), 128)
    assert torch.equal(part.cpu(), values[2:4])
    own = tensor.device_tensor_layout()
    behind = torch.spyre.as_strided_with_layout(tensor, (3, 64), (64, 1), 128, own)
    assert torch.equal(behind.cpu(), values[2:5])
    torch.spyre.set_spyre_tensor_layout(tensor, turned)
    assert torch.equal(tensor.cpu(), values.t())
    large = SpyreTensorLayout([2, 64, 64], [64, 64, 1], FP16)
    with pytest.raises(RuntimeError, match="needs 16384 bytes, and the tensor's memory holds 8192"):
        torch.spyre.set_spyre_tensor_layout(tensor, large)


@pytest.mark.skipif(CARD, reason="the card has no complex numbers")
def test_views_as_another_dtype_keep_a_layout_of_their_own():
    values = torch.randn(3, 65, dtype=torch.complex64)
    layout = SpyreTensorLayout([3, 65], torch.complex64)
    sticks = torch.zeros(torch.Size(layout.device_size).numel(), dtype=torch.complex64, device="spyre")
    tensor = torch.spyre.as_strided_with_layout(sticks, (3, 65), (65, 1), 0, layout).copy_(values.to("spyre"))

    assert torch.equal(torch.view_as_real(tensor).cpu(), torch.view_as_real(values))
    assert torch.equal(torch.view_as_real(tensor).mul(2).cpu(), torch.view_as_real(values) * 2)
    assert torch.equal(torch.view_as_complex(torch.view_as_real(tensor)).cpu(), values)
    assert torch.equal(tensor.view(torch.int64).cpu(), values.view(torch.int64))


# What is not on the device.


def test_others_have_no_layout():
    assert torch.ones(3).device_tensor_layout() is None
    assert torch.ones(3, device="meta").device_tensor_layout() is None
    assert torch.nn.Parameter(torch.ones(3)).device_tensor_layout() is None


def test_fake_tensors_have_the_layouts_of_real_ones():
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = torch.ones(4, 4, device="spyre")
    expected = torch.empty(6, 8, device="spyre", stick_dims=[0]).device_tensor_layout()
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(real)
        assert fake.device.type == "spyre" and fake.device_tensor_layout() == real.device_tensor_layout()
        made = torch.empty(6, 8, device="spyre", stick_dims=[0])
        assert made.size() == (6, 8) and made.device_tensor_layout() == expected
        moved = torch.ones(6, 8).to("spyre", stick_dims=[0])
        assert moved.device.type == "spyre" and moved.device_tensor_layout() == expected


def test_empty_tensors_have_layouts():
    for size in ([0], [0, 5], [5, 0], [2, 0, 3]):
        tensor = torch.empty(size, dtype=torch.float16, device="spyre")
        assert tensor.device_tensor_layout() == SpyreTensorLayout(size, torch.float16)
        moved = tensor.to("spyre", stick_dims=[0], copy=True)
        assert moved.size() == torch.Size(size) and moved.data_ptr() == 0
        assert moved.cpu().size() == torch.Size(size)
        assert torch.zeros(size, stick_dims=[0]).cpu().size() == torch.Size(size)


def test_the_keywords_start_nothing_for_the_cpu(python):
    python(
        """
        import torch
        x = torch.ones(4, 4)
        torch.empty(3); torch.zeros(2, device="cpu"); torch.empty_like(x); x.new_zeros(3); x.to(torch.float16)
        x.to("cpu", device_layout=None); torch.full((2,), 1.0, stick_dims=None)
        assert x.device_tensor_layout() is None
        torch.nn.Linear(3, 4).to(torch.float64)
        from torch_spyre._C import SpyreTensorLayout
        SpyreTensorLayout([4, 4], torch.float16)
        assert not torch.spyre.is_initialized()
        """
    )


def test_wrapped_functions_look_like_pytorchs():
    assert (torch.empty.__name__, torch.empty.__module__) == ("empty", "torch")
    assert "empty(" in torch.empty.__doc__ and "to(" in torch.Tensor.to.__doc__
    assert torch.Tensor._spyre_tensor_patched is True
    for function in (torch.empty, torch.zeros_like, torch.tensor, torch.Tensor.to, torch.Tensor.new_full):
        assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function
    with pytest.raises(TypeError):
        torch.empty()
    with pytest.raises(TypeError):
        torch.ones(3).to(1, 2, 3, 4, 5, 6, 7, 8, 9)
    with pytest.raises(TypeError):
        torch.Tensor.to(3, torch.float16)
    scripted = torch.jit.script(_scripted)
    assert torch.equal(scripted(torch.ones(3)), _scripted(torch.ones(3)))
    traced = torch.fx.symbolic_trace(_scripted)
    assert torch.equal(traced(torch.ones(3)), _scripted(torch.ones(3)))


def _scripted(x: Tensor) -> Tensor:
    return x.to(torch.float64) + torch.zeros([3], dtype=torch.float64)


def test_wrapped_functions_are_traced():
    compiled = torch.compile(_scripted, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(3)), _scripted(torch.ones(3)))


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x.cpu().to("spyre", stick_dims=[0]),
        lambda x: torch.zeros(4, 5, device="spyre", stick_dims=[0]) + x,
        lambda x: torch.ops.spyre.restickify(x, [0]) + 1,
    ],
)
def test_layouts_in_compiled_programs(made):
    x = torch.ones(4, 5, device="spyre")
    assert torch.equal(torch.compile(made, backend="eager", fullgraph=True)(x).cpu(), made(x).cpu())


def test_modes_and_subclasses_see_the_functions():
    from torch.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    class Own(Tensor):
        pass

    with Mode():
        torch.empty(3), torch.ones(3).to(torch.float64), torch.zeros_like(torch.ones(3))
    assert seen == ["empty", "ones", "to", "ones", "zeros_like"]
    own = torch.ones(3).as_subclass(Own)
    assert all(type(made) is Own for made in (own.to(torch.float64), torch.zeros_like(own), own.new_zeros(3)))


@pytest.mark.parametrize("name", ["empty", "empty_like", "zeros_like", "full_like", "rand_like", "to"])
def test_a_layout_goes_with_the_format_that_is_kept(name):
    makers = FACTORIES | {"to": lambda **k: torch.ones(6, 10).to("spyre", **k)}
    for memory_format in (torch.preserve_format, torch.contiguous_format):
        made = makers[name](device_layout=LAYOUT, memory_format=memory_format)
        assert made.device.type == "spyre"
        assert (made.stride(), made.device_tensor_layout()) == ((10, 1), LAYOUT)
    with_sticks = makers[name](stick_dims=[0], memory_format=torch.preserve_format)
    assert with_sticks.get_stick_dims() == [0]


def test_memory_without_a_layout_takes_that_format_too():
    made = torch.empty(6, 10, device="spyre", memory_format=torch.preserve_format)
    assert made.stride() == (10, 1)
    assert made.fill_(2).sum().item() == 120


def test_empty_with_layout_takes_that_format():
    made = torch.spyre.empty_with_layout((6, 10), LAYOUT, torch.float32, memory_format=torch.preserve_format)
    assert made.device_tensor_layout() == LAYOUT


REPLACED = [(torch, name) for name in layouts._EMPTY + layouts._MADE + layouts._EMPTY_LIKE + layouts._MADE_LIKE]
REPLACED += [(torch, name) for name in layouts._FILLED | layouts._FILLED_LIKE]
REPLACED += [(Tensor, name) for name in (*layouts._METHODS, "to")]


@pytest.mark.parametrize("owner, name", REPLACED, ids=lambda value: getattr(value, "__name__", value))
def test_a_replaced_function_tells_its_signature(owner, name):
    function = getattr(owner, name)
    parameters = inspect.signature(function).parameters
    kinds = [parameter.kind.name for parameter in parameters.values() if parameter.name != "self"]
    assert kinds == ["VAR_POSITIONAL", "KEYWORD_ONLY", "KEYWORD_ONLY", "VAR_KEYWORD"]
    assert [parameters[keyword].default for keyword in ("device_layout", "stick_dims")] == [None, None]
    inspect.signature(function).bind(torch.ones(2), 3, dtype=torch.int8, stick_dims=[0])


def test_replaced_functions_keep_pytorchs_words(python):
    code = """
        import inspect, sys, torch
        for name in ["empty", "zeros", "randn_like", "scalar_tensor"]:
            print(repr(getattr(torch, name).__doc__), getattr(torch, name).__name__)
        print(repr(torch.Tensor.to.__doc__), torch.Tensor.to.__name__)
        for function in (torch.nn.Module.to, torch.Tensor.__repr__):
            print(inspect.signature(function), repr(function.__doc__), function.__name__)
    """
    plain, ours = (python(code, TORCH_DEVICE_BACKEND_AUTOLOAD=value).stdout for value in ("0", "1"))
    assert ours == plain
