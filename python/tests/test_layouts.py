"""Layouts: the numbers that they come to, and tensors that lie as they say."""

from __future__ import annotations

import copy
import itertools
import pickle
import random

import pytest
import torch
from torch import Tensor

from layout_cases import CARD, DTYPES, contiguous, halves, only_on_card, only_on_open
from torch_spyre._C import (
    DataFormats,
    ElementArrangement,
    SpyreTensorLayout,
    encode_constant,
    get_device_dtype,
    get_elem_in_stick,
)

FP16 = DataFormats.SEN169_FP16 if CARD else DataFormats.IEEE_FP16

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
