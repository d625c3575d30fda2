"""Layouts: the numbers that they come to, and tensors that are made, moved and read through them."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import random

import pytest
import torch
from torch import Tensor

from torch_spyre._C import (
    DataFormats,
    ElementArrangement,
    SpyreTensorLayout,
    encode_constant,
    get_device_dtype,
    get_elem_in_stick,
)

CARD = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"
FP16 = DataFormats.SEN169_FP16 if CARD else DataFormats.IEEE_FP16

only_on_card = pytest.mark.skipif(not CARD, reason="as the card has it")
only_on_open = pytest.mark.skipif(CARD, reason="what the card does not keep")


def halves(*size: int) -> Tensor:
    """Numbers that every 16-bit format keeps, all different as far as they can be."""
    count = torch.Size(size).numel()
    return (torch.arange(count) % 509 - 254).to(torch.float16).reshape(size)


def contiguous(size: list[int]) -> list[int]:
    return list(torch.empty(size, device="meta").stride())


# What layouts are.

VALUES = {
    "SEN169_FP16": 0, "IEEE_FP32": 1, "INVALID": 2, "SEN143_FP8": 3, "SEN152_FP8": 4, "SEN153_FP9": 5,
    "SENINT2": 6, "SENINT4": 7, "SENINT8": 8, "SENINT16": 9, "SENINT24": 10, "IEEE_INT64": 11,
    "IEEE_INT32": 12, "SENUINT32": 13, "SENUINT2": 14, "IEEE_FP16": 15, "BOOL": 16, "BFLOAT16": 17,
    "SEN18F_FP24": 18,
}  # fmt: skip


def test_formats_have_the_cards_numbers():
    for name, value in VALUES.items():
        member = getattr(DataFormats, name)
        assert (int(member), member.value, member.name, str(member)) == (value, value, name, f"DataFormats.{name}")
        assert DataFormats(value) == member and hash(DataFormats(value)) == hash(member)
        assert pickle.loads(pickle.dumps(member)) == member
    assert set(VALUES) <= set(DataFormats.__members__)
    assert all(int(DataFormats.__members__[name]) >= 32 for name in set(DataFormats.__members__) - set(VALUES))
    with pytest.raises(ValueError, match="77 is no DataFormats"):
        DataFormats(77)


def test_sticks_hold_128_bytes_of_a_format():
    expected = {"SEN169_FP16": 64, "IEEE_FP32": 32, "INVALID": 0, "SENINT4": 256, "SENINT8": 128, "IEEE_INT64": 16}
    for name, elements in expected.items():
        assert getattr(DataFormats, name).elems_per_stick() == elements


def test_arrangements_have_numbers():
    names = ("STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2")
    for value, name in enumerate(names):
        member = getattr(ElementArrangement, name)
        assert (int(member), str(member)) == (value, f"ElementArrangement.{name}")
        assert pickle.loads(pickle.dumps(member)) == member
    assert list(ElementArrangement.__members__) == list(names)


ON_THE_CARD = {
    torch.float16: ("SEN169_FP16", 64), torch.bfloat16: ("SEN169_FP16", 64), torch.bool: ("SEN169_FP16", 64),
    torch.float32: ("IEEE_FP32", 32), torch.int8: ("SENINT8", 128), torch.int16: ("SENINT16", 64),
    torch.int32: ("IEEE_INT32", 32), torch.int64: ("IEEE_INT32", 32), torch.float8_e4m3fn: ("SEN143_FP8", 128),
    torch.float8_e5m2fnuz: ("SEN152_FP8", 128), torch.uint8: ("SENUINT32", 32), torch.quint8: ("SENUINT32", 32),
    torch.float64: ("INVALID", 0), torch.complex64: ("INVALID", 0), torch.qint8: ("INVALID", 0),
}  # fmt: skip
ON_OPEN = {
    torch.float16: ("IEEE_FP16", 64), torch.bfloat16: ("BFLOAT16", 64), torch.bool: ("BOOL", 128),
    torch.float32: ("IEEE_FP32", 32), torch.int64: ("IEEE_INT64", 16), torch.float64: ("IEEE_FP64", 16),
    torch.uint8: ("UINT8", 128), torch.complex128: ("COMPLEX128", 8), torch.qint8: ("INVALID", 0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ON_THE_CARD if CARD else ON_OPEN, ids=str)
def test_a_dtype_has_a_format_on_the_device(dtype):
    name, elements = (ON_THE_CARD if CARD else ON_OPEN)[dtype]
    assert get_device_dtype(dtype) is getattr(DataFormats, name)
    assert get_elem_in_stick(dtype) == elements


PINS = [
    ([], None, None, [1, 64], [-1, -1]),
    ([120], None, None, [2, 64], [64, 1]),
    ([128], None, None, [2, 64], [64, 1]),
    ([512, 240], None, None, [4, 512, 64], [64, 240, 1]),
    ([512, 256], None, None, [4, 512, 64], [64, 256, 1]),
    ([512, 8, 240], None, None, [8, 4, 512, 64], [240, 64, 1920, 1]),
    ([512, 8, 256], None, None, [8, 4, 512, 64], [256, 64, 2048, 1]),
    ([512, 256], None, [1, 0], [8, 256, 64], [16384, 1, 256]),
    ([512, 8, 256], None, [0, 2, 1], [256, 1, 512, 64], [1, 16384, 2048, 256]),
    ([512, 8, 256], None, [1, 0, 2], [512, 4, 8, 64], [2048, 64, 256, 1]),
    ([512, 8, 256], None, [1, 2, 0], [256, 8, 8, 64], [1, 131072, 256, 2048]),
    ([512, 8, 256], None, [2, 0, 1], [512, 1, 256, 64], [2048, 16384, 1, 256]),
    ([512, 8, 256], None, [2, 1, 0], [8, 8, 256, 64], [256, 131072, 1, 2048]),
    ([512, 256], None, [0, 1, -1], [256, 1, 512, 64], [1, -1, 256, -1]),
    ([512, 256, 1], [256, 1, 1], [0, 1, 2], [256, 1, 512, 64], [1, -1, 256, -1]),
    ([1024, 4096], None, [1, 0], [16, 4096, 64], [262144, 1, 4096]),
    ([128, 64], None, [1, 0], [2, 64, 64], [4096, 1, 64]),
    ([2, 3, 4, 128], None, None, [3, 4, 2, 2, 64], [512, 128, 64, 1536, 1]),
    ([5, 1, 64], None, None, [1, 1, 5, 64], [-1, 64, 64, 1]),
]


@pytest.mark.parametrize(("size", "strides", "order", "device_size", "stride_map"), PINS)
def test_pins(size, strides, order, device_size, stride_map):
    strides = contiguous(size) if strides is None else strides
    if order is None:
        layout = SpyreTensorLayout(size, torch.float16)
        assert layout == SpyreTensorLayout(host_size=size, dtype=torch.float16)
        if strides == contiguous(size):
            assert layout == SpyreTensorLayout(size, strides, torch.float16, list(range(len(size))))
    else:
        layout = SpyreTensorLayout(size, strides, torch.float16, order)
        assert layout == SpyreTensorLayout(
            dim_order=order, dtype=torch.float16, host_strides=strides, host_size=size
        )
    assert (layout.device_size, layout.stride_map) == (device_size, stride_map)
    assert layout.device_dtype is FP16
    assert layout.element_arrangement is ElementArrangement.STANDARD
    assert (layout.dma_sizes, layout.dma_strides) == (size, strides)
    assert layout.elems_per_stick() == 64
    explicit = SpyreTensorLayout(device_size, stride_map, FP16)
    assert explicit == layout and hash(explicit) == hash(layout) and explicit.dma_sizes == []
    assert explicit == SpyreTensorLayout(
        device_size=device_size, stride_map=stride_map, device_dtype=FP16,
        element_arrangement=ElementArrangement.STANDARD,
    )  # fmt: skip


def test_the_text_of_a_layout_makes_it_again():
    layout = SpyreTensorLayout([512, 256], torch.float16)
    expected = (
        "SpyreTensorLayout(device_size=[4, 512, 64], stride_map =[64, 256, 1], "
        f"device_dtype=DataFormats.{FP16.name})"
    )
    assert str(layout) == repr(layout) == expected
    assert eval(expected) == layout
    # What is not printed: the arrangement.
    assert str(layout.with_element_arrangement(ElementArrangement.EXX2)) == expected


def test_layouts_differ_where_any_of_four_things_does():
    one = SpyreTensorLayout([4, 512, 64], [64, 256, 1], FP16)
    same = SpyreTensorLayout([4, 512, 64], [64, 256, 1], FP16)
    others = [
        SpyreTensorLayout([4, 513, 64], [64, 256, 1], FP16),
        SpyreTensorLayout([4, 512, 64], [64, 257, 1], FP16),
        SpyreTensorLayout([4, 512, 64], [64, 256, 1], DataFormats.BFLOAT16),
        SpyreTensorLayout([4, 512, 64], [64, 256, 1], FP16, ElementArrangement.QFP8CH),
    ]
    assert one == same and len({one, same, *others}) == 5
    assert one != "SpyreTensorLayout" and one is not None
    arranged = one.with_element_arrangement(ElementArrangement.QFP8CH)
    assert arranged == others[3] and one.element_arrangement is ElementArrangement.STANDARD


def test_layouts_are_pickled_and_copied():
    layouts = [
        SpyreTensorLayout([512, 8, 240], torch.float16),
        SpyreTensorLayout([], torch.float16),
        SpyreTensorLayout([512, 256], [256, 1], torch.float16, [0, 1, -1]),
        SpyreTensorLayout([3, 2, 14, 64], [120, 64, 360, 1], FP16, ElementArrangement.DL16_TO_FP32),
    ]
    for layout, protocol in itertools.product(layouts, range(pickle.HIGHEST_PROTOCOL + 1)):
        read = pickle.loads(pickle.dumps(layout, protocol))
        assert read == layout
        assert (read.dma_sizes, read.dma_strides) == (layout.dma_sizes, layout.dma_strides)
    assert copy.deepcopy({"a": layouts})["a"] == layouts
    assert copy.copy(layouts[0]) == layouts[0]


def test_what_older_versions_pickled_is_read():
    read, (state,) = SpyreTensorLayout([40, 60], torch.float16).__reduce__()
    assert state[0] == 3
    first, second = read((1, *state[1:4])), read((2, *state[1:5]))
    assert first == second == SpyreTensorLayout([40, 60], torch.float16) and first.dma_sizes == []
    with pytest.raises(ValueError, match="version 4, newer than 3"):
        read((4, *state[1:]))
    with pytest.raises(ValueError, match="version 2 has 5 parts"):
        read((2, *state[1:]))


def test_fields_cannot_be_written():
    layout = SpyreTensorLayout([4], torch.float16)
    for field in ("device_size", "stride_map", "device_dtype", "element_arrangement", "dma_sizes"):
        with pytest.raises(AttributeError):
            setattr(layout, field, getattr(layout, field))
    layout.device_size.append(7)
    assert layout.device_size == [1, 64]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([4, 4], [4, 1], torch.float16, [0]), RuntimeError, "Incompatible host_size and dim_order"),
        (([4, 4], [4, 1], torch.float16, [0, 0]), RuntimeError, "Incompatible host_size and dim_order"),
        (([4, 4], [4, 1], torch.float16, [-1, 0, 1]), RuntimeError, "Incompatible host_size and dim_order"),
        (([4, 4], [4, 1], torch.float16, [0, 1, -1, -1]), RuntimeError, "Incompatible host_size and dim_order"),
        (([4, 4], [1], torch.float16, [0, 1]), RuntimeError, "2 sizes and 1 strides"),
        (([1, 63], [1, 1], DataFormats.IEEE_FP16), RuntimeError, "Invalid device sizes and stride map"),
        (([1, 64], [1], DataFormats.IEEE_FP16), RuntimeError, "Invalid device sizes and stride map"),
        (([1, 64], [1, -2], DataFormats.IEEE_FP16), RuntimeError, "Invalid device sizes and stride map"),
        (([], [], DataFormats.IEEE_FP16), RuntimeError, "Invalid device sizes and stride map"),
        (([1, 64], [1, 1], DataFormats.INVALID), RuntimeError, "INVALID"),
        (([-1], torch.float16), RuntimeError, "host_size.0. is -1: it must not be negative"),
        (([2**62, 2**62], torch.float16), RuntimeError, "2.6[0-9]|host stride"),
        (([4], torch.qint8), RuntimeError, "does not support dtype qint8"),
        (([4], "float16"), TypeError, "takes .host_size, dtype."),
        (([4], torch.float16, [1]), TypeError, "takes .host_size, dtype."),
        ((), TypeError, "takes .host_size, dtype."),
        ((["a"], torch.float16), TypeError, "str"),
        ((4, torch.float16), TypeError, "int"),
    ],
)  # fmt: skip
def test_what_is_no_layout_is_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        SpyreTensorLayout(*arguments)


def test_unknown_and_doubled_names_are_refused():
    for wrong in ({"host_size": [4]}, {"dtype": torch.float16, "size": [4]}):
        with pytest.raises(TypeError, match="takes"):
            SpyreTensorLayout([4], torch.float16, **wrong)


@only_on_card
def test_the_card_has_limits():
    with pytest.raises(RuntimeError, match="Unsupported tensor rank 7"):
        SpyreTensorLayout([2] * 7, torch.float16)
    for dtype in (torch.float64, torch.complex64):
        with pytest.raises(RuntimeError, match="does not support dtype"):
            SpyreTensorLayout([4], dtype)
        with pytest.raises(RuntimeError, match="does not support dtype"):
            torch.empty(4, dtype=dtype, device="spyre", stick_dims=[0])


@only_on_open
def test_more_than_six_dimensions_are_collapsed():
    values = halves(2, 3, 2, 2, 2, 2, 2, 5)
    for dims in ([7], [0], [3, 7]):
        assert torch.equal(values.to("spyre", stick_dims=dims).cpu(), values)


def test_bytes_of_a_layout_are_what_memory_statistics_count():
    torch.spyre.init()
    for size in ([64, 64], [2], [512, 240], [3, 5, 70]):
        before = torch.accelerator.memory_allocated()
        tensor = torch.empty(size, dtype=torch.float16, device="spyre")
        layout = tensor.device_tensor_layout()
        expected = 128 * torch.Size(layout.device_size[:-1]).numel()
        assert layout.device_bytes() == expected
        assert torch.accelerator.memory_allocated() - before == expected
        assert tensor.untyped_storage().nbytes() == 2 * tensor.numel()
        del tensor
        assert torch.accelerator.memory_allocated() == before


def test_constants_are_encoded():
    assert encode_constant(1.0, DataFormats.IEEE_FP32) == 0x3F800000
    assert encode_constant(1.0, DataFormats.SEN169_FP16) == 0x3E00
    assert encode_constant(-2.5, DataFormats.IEEE_FP16) == 0xC100
    assert encode_constant(1.0, DataFormats.BFLOAT16) == 0x3F80
    assert encode_constant(7, DataFormats.SENINT8) == 7
    with pytest.raises(ValueError, match="no format of numbers"):
        encode_constant(1.0, DataFormats.INVALID)


# Tensors through layouts.

EXPLICIT = [
    # plain
    ([60], None, [1, 64], [64, 1]),
    ([240], None, [4, 64], [64, 1]),
    ([40, 120], None, [2, 40, 64], [64, 120, 1]),
    ([40, 120], None, [1, 120, 64], [7680, 1, 120]),
    ([40, 256], None, [1, 256, 64], [16384, 1, 256]),
    ([40, 256], None, [4, 40, 64], [64, 256, 1]),
    # over-padded
    ([40, 60], None, [1, 512, 64], [3840, 1, 60]),
    ([40, 60], None, [1, 512, 64], [64, 60, 1]),
    ([40, 256], None, [4, 512, 64], [64, 256, 1]),
    # expanding
    ([60], None, [1, 512, 64], [64, 0, 1]),
    # folding
    ([40, 60], None, [38, 64], [64, 1]),
    # leading ones
    ([60], None, [1, 1, 64], [64, 60, 1]),
    ([60], None, [1, 1, 1, 1, 1, 64], [60, 60, 60, 64, 60, 1]),
    # trailing ones
    ([60], None, [1, 60, 64], [64, 1, 1]),
    # viewing
    ([60], None, [1, 2, 64], [64, 30, 1]),
    ([60], None, [2, 1, 2, 64], [15, 64, 30, 1]),
    # tiling
    ([4800], None, [3, 2, 14, 64], [120, 64, 360, 1]),
    ([40, 60], None, [24, 1, 2, 64], [60, 64, 1440, 1]),
    ([40, 60], None, [2, 12, 1, 2, 64], [720, 60, 64, 1200, 1]),
    ([40, 60], None, [2, 6, 2, 1, 2, 64], [720, 120, 60, 64, 1200, 1]),
    ([40, 60], None, [3, 4, 3, 1, 2, 64], [600, 180, 60, 64, 1800, 1]),
    # permuted host
    ([40, 60], [1, 40], [1, 40, 64], [2560, 1, 40]),
    ([40, 60], [1, 40], [1, 60, 64], [64, 40, 1]),
    # a 1-D layout of a 2-D tensor
    ([512, 256], None, [2048, 64], [64, 1]),
    # key-value caches: of an adapter, and slot-major
    ([2, 3, 70, 100], None, [70, 3, 2, 2, 64], [100, 7000, 64, 21000, 1]),
    ([10, 4, 128], None, [10, 4, 2, 64], [512, 128, 64, 1]),
]


@pytest.mark.parametrize(("size", "strides", "device_size", "stride_map"), EXPLICIT)
def test_explicit_layouts_hold_every_element(size, strides, device_size, stride_map):
    layout = SpyreTensorLayout(device_size, stride_map, FP16)
    values = halves(*size)
    if strides is not None:
        values = torch.empty_strided(size, strides, dtype=torch.float16).copy_(values)

    tensor = values.to("spyre", device_layout=layout)

    assert tensor.device_tensor_layout() == layout
    assert tensor.stride() == values.stride()
    assert torch.equal(tensor.cpu(), values)
    assert torch.equal(tensor.flip(0).cpu(), values.flip(0))
    if tensor.dim() == 2:
        assert torch.equal(tensor.t()[3:, 1::2].cpu(), values.t()[3:, 1::2])
        tensor[5:7, 10:20] = 7
        values[5:7, 10:20] = 7
        assert torch.equal(tensor.cpu(), values)
    assert torch.equal(tensor.to("spyre", device_layout=SpyreTensorLayout(size, torch.float16)).cpu(), values)


@pytest.mark.parametrize("count", [120, 240, 512])
def test_slices_of_a_source_are_moved(count):
    values = halves(count)
    half = values[count // 2 :]
    layout = SpyreTensorLayout([-(-len(half) // 64), 64], [64, 1], FP16)
    assert torch.equal(half.to("spyre", device_layout=layout).cpu(), half)
    matrix = halves(512, 256)
    rows, columns = matrix[256:, :], matrix[:, 60:]
    assert torch.equal(rows.to("spyre", device_layout=SpyreTensorLayout([256, 256], torch.float16)).cpu(), rows)
    assert torch.equal(columns.to("spyre").cpu(), columns.contiguous())
    assert torch.equal(columns.to("spyre", stick_dims=[0]).cpu(), columns.contiguous())


@pytest.mark.parametrize(
    ("size", "device_size", "stride_map", "text"),
    [
        ([65], [1, 64], [64, 1], "Invalid device sizes and stride map"),
        ([40, 60], [1, 39, 64], [64, 60, 1], "Invalid device sizes and stride map"),
        ([40, 60], [1, 40, 64], [64, 60, 2], "Invalid tiling for dimension"),
    ],
)
def test_layouts_that_do_not_hold_the_tensor_are_refused(size, device_size, stride_map, text):
    layout = SpyreTensorLayout(device_size, stride_map, FP16)
    with pytest.raises(RuntimeError, match=text):
        halves(*size).to("spyre", device_layout=layout)
    with pytest.raises(RuntimeError, match=text):
        torch.empty(size, dtype=torch.float16, device_layout=layout)


def test_a_layout_for_another_dtype_is_refused():
    layout = SpyreTensorLayout([4, 4], torch.float16)
    with pytest.raises(RuntimeError, match="dtype float32 is stored as"):
        torch.empty(4, 4, device_layout=layout)
    with pytest.raises(RuntimeError, match="dtype int32 is stored as"):
        torch.ones(4, 4, dtype=torch.int32).to("spyre", device_layout=layout)


@only_on_open
def test_the_cards_own_float_can_be_asked_for():
    values = halves(40, 60)
    layout = SpyreTensorLayout([1, 40, 64], [64, 60, 1], DataFormats.SEN169_FP16)
    tensor = values.to("spyre", device_layout=layout)
    assert torch.equal(tensor.cpu(), values)
    fine = torch.full((40, 60), 1 + 2**-10, dtype=torch.float16).to("spyre", device_layout=layout)
    assert not torch.equal(fine.cpu(), torch.full((40, 60), 1 + 2**-10, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="whose bits are not the host's"):
        fine.view(torch.int16).cpu()


# Where layouts can be given.

DTYPES = [torch.float16, torch.float32, torch.bfloat16, torch.int8, torch.int32, torch.bool]
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
        lambda t: torch.ops.spyre.restickify(t, [0]),
    ):
        with pytest.raises(RuntimeError, match="expected a tensor on 'spyre', not on 'cpu'"):
            ask(x)


def test_numbers_that_nobody_handed_out_are_refused():
    x = torch.ones(4, 4, device="spyre")
    for number in (0, -1, 10**15):
        with pytest.raises(RuntimeError, match="no layout was handed over"):
            torch.ops.spyre._empty_with_layout([4], [1], number, torch.float32, torch.device("spyre:0"))
        with pytest.raises(RuntimeError, match="no layout was handed over"):
            torch.ops.spyre._set_layout(x, number)
        with pytest.raises(RuntimeError, match="no layout was handed over"):
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
    contiguous = x.to("spyre", memory_format=torch.contiguous_format, stick_dims=[0])
    assert contiguous.is_contiguous() and torch.equal(contiguous.cpu(), x)
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


# What is not on the device.


def test_others_have_no_layout():
    assert torch.ones(3).device_tensor_layout() is None
    assert torch.ones(3, device="meta").device_tensor_layout() is None
    assert torch.nn.Parameter(torch.ones(3)).device_tensor_layout() is None


def test_pretended_tensors_have_no_layout():
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = torch.ones(4, 4, device="spyre")
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(real)
        assert fake.device.type == "spyre" and fake.device_tensor_layout() is None
        made = torch.empty(6, 8, device="spyre", stick_dims=[0])
        assert made.size() == (6, 8) and made.device_tensor_layout() is None
        moved = torch.ones(6, 8).to("spyre", stick_dims=[0])
        assert moved.device.type == "spyre" and moved.device_tensor_layout() is None


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


# Any shape, any order, any view.

SEEDS = 60


def random_tensor(chance: random.Random) -> Tensor:
    rank = chance.randint(0, 5)
    size = [chance.choice([1, 1, 2, 3, 5, 7, 31, 64, 65, 130]) for _ in range(rank)]
    while torch.Size(size).numel() > 60_000:
        size[chance.randrange(rank)] = 1
    dtype = chance.choice(DTYPES)
    values = (torch.arange(torch.Size(size).numel()) % 113 - 50).to(dtype).reshape(size)
    if rank > 1 and chance.random() < 0.5:
        order = chance.sample(range(rank), rank)
        inverse = sorted(range(rank), key=order.__getitem__)
        values = values.permute(order).contiguous().permute(inverse)
    return values


def random_view(tensor: Tensor, chance: random.Random) -> list:
    """Steps that make a view, to be made of two tensors alike."""
    steps, size = [], list(tensor.size())
    for _ in range(chance.randint(0, 3)):
        if not size:
            break
        at = chance.randrange(len(size))
        kind = chance.choice(["narrow", "transpose", "select", "step", "unsqueeze"])
        if kind == "narrow" and size[at] > 1:
            start = chance.randrange(size[at])
            length = chance.randint(1, size[at] - start)
            steps.append(lambda t, a=at, s=start, n=length: t.narrow(a, s, n))
            size[at] = length
        elif kind == "transpose":
            other = chance.randrange(len(size))
            steps.append(lambda t, a=at, b=other: t.transpose(a, b))
            size[at], size[other] = size[other], size[at]
        elif kind == "select":
            index = chance.randrange(size[at])
            steps.append(lambda t, a=at, i=index: t.select(a, i))
            size.pop(at)
        elif kind == "step":
            steps.append(lambda t, a=at: t[(slice(None),) * a + (slice(None, None, 2),)])
            size[at] = (size[at] + 1) // 2
        elif kind == "unsqueeze":
            steps.append(lambda t, a=at: t.unsqueeze(a))
            size.insert(at, 1)
    return steps


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_tensor_in_any_layout_is_exact(seed):
    chance = random.Random(seed)
    for _ in range(6):
        values = random_tensor(chance)
        rank = values.dim()
        chosen = {}
        if chance.random() < 0.5:
            dims = chance.sample(range(rank), chance.randint(0, min(rank, 2)))
            chosen = {"stick_dims": dims}
        else:
            order = chance.sample(range(rank), rank) + ([-1] if rank and chance.random() < 0.3 else [])
            host = torch.empty_like(values, device="meta")
            chosen = {
                "device_layout": SpyreTensorLayout(host.size(), host.stride(), values.dtype, order)
            }

        tensor = values.to("spyre", **chosen)

        assert torch.equal(tensor.cpu(), values), (values.size(), values.stride(), chosen)
        mirror, steps = values.clone(), random_view(values, chance)
        mine, theirs = tensor, mirror
        for step in steps:
            mine, theirs = step(mine), step(theirs)
        assert torch.equal(mine.cpu(), theirs)
        mine.copy_(torch.zeros_like(theirs))
        theirs.zero_()
        assert torch.equal(tensor.cpu(), mirror), (values.size(), values.stride(), chosen)
        assert torch.equal(tensor.to("spyre", copy=True, stick_dims=[]).cpu(), mirror)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_tiling_follows_the_rule(seed):
    chance = random.Random(1000 + seed)
    for _ in range(50):
        rank = chance.randint(1, 6)
        size = [chance.choice([1, 2, 3, 63, 64, 65, 200]) for _ in range(rank)]
        strides = contiguous(size)
        order = chance.sample(range(rank), rank)
        layout = SpyreTensorLayout(size, strides, torch.float16, order)
        assert (layout.device_size, layout.stride_map) == rule(size, strides, order)


def rule(size: list[int], strides: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """The published rule, read aloud."""
    rank = len(order)
    dims = [order[0]] * 2 if rank == 1 else [*order[1:], order[0], order[-1]]
    device_size = [-(-size[dim] // 64) if dim == order[-1] else size[dim] for dim in dims[:-1]] + [64]
    stride_map, last = [0] * len(dims), {}
    for at in reversed(range(len(dims))):
        dim = dims[at]
        stride = strides[dim] if dim not in last else last[dim][0] * last[dim][1]
        last[dim] = (stride, device_size[at])
        stride_map[at] = -1 if size[dim] == 1 else stride
    return device_size, stride_map
