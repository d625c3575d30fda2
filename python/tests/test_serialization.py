"""Device tensors are saved, loaded, pickled and copied like any other; what cannot be is refused."""

import copy
import io
import pickle

import pytest
import torch

import children
from conftest import DEVICE, needs_spyre
from views.chains import first_difference
from views.steps import ALL


def saved(value, **options) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


def some(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(7 * 65).remainder(97).to(dtype).reshape(7, 65)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("way", ["device to device", "device to cpu", "cpu to device", "cpu to cpu"])
def test_save_and_load_in_every_direction(way, dtype, device):
    source, target = (device if name == "device" else "cpu" for name in way.split(" to "))
    host = some(dtype)

    back = torch.load(saved(host.to(source)), map_location=target, weights_only=True)

    assert back.device.type == torch.device(target).type
    assert first_difference(host, back.cpu()) is None


@pytest.mark.parametrize("form", ["none", "string", "device", "indexed", "dict", "function", "storage"])
def test_every_form_of_map_location(form, device):
    host = some(torch.float32)
    forms = {
        "none": None,
        "string": DEVICE,
        "device": device,
        "indexed": f"{DEVICE}:0" if DEVICE != "cpu" else "cpu",
        "dict": {f"{DEVICE}:0": "cpu"},
        "function": lambda storage, location: storage,
        "storage": lambda storage, location: storage if DEVICE == "cpu" else storage.spyre(),
    }

    back = torch.load(saved(host.to(device)), map_location=forms[form], weights_only=True)

    wanted = "cpu" if form in ("dict", "function") else DEVICE
    assert back.device.type == wanted
    assert first_difference(host, back.cpu()) is None


def test_the_old_file_form_too(device):
    host = some(torch.float16)
    file = saved(host.to(device), _use_new_zipfile_serialization=False)

    assert first_difference(host, torch.load(file, weights_only=True).cpu()) is None
    file.seek(0)
    assert torch.load(file, map_location="cpu", weights_only=True).device.type == "cpu"


def test_views_that_share_a_storage_share_it_after_a_load(device):
    base = some(torch.float32).to(device)
    views = {"base": base, "columns": base.t()[3:9], "row": base[2]}

    back = torch.load(saved(views), weights_only=True)

    assert back["columns"].stride() == base.t()[3:9].stride()
    back["base"].fill_(5)
    assert bool((back["columns"].cpu() == 5).all()) and bool((back["row"].cpu() == 5).all())
    assert back["row"].untyped_storage()._cdata == back["base"].untyped_storage()._cdata


def test_a_module_and_its_optimizer_go_round(device):
    model = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 8).to(device)).sum().backward()
    optimizer.step()

    state = torch.load(saved({"m": model.state_dict(), "o": optimizer.state_dict()}), weights_only=True)
    other = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    other.load_state_dict(state["m"])
    there = copy.deepcopy(model)
    there.load_state_dict(other.state_dict())

    for left, right in zip(model.parameters(), other.parameters()):
        assert torch.equal(left.cpu(), right)
    assert all(value.device.type == DEVICE for value in state["m"].values())
    assert torch.equal(there[0].weight.cpu(), model[0].weight.cpu())


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_device_values_and_strides(protocol, device):
    host = some(torch.bfloat16)
    there = host.to(device).t()[2:]

    back = pickle.loads(pickle.dumps(there, protocol))

    assert back.device.type == DEVICE and back.stride() == there.stride()
    assert first_difference(host.t()[2:], back.cpu()) is None


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_deepcopy_is_another_storage(dtype, device):
    host = some(dtype)
    there = host.clone().to(device)

    twin = copy.deepcopy(there)
    there.zero_()

    assert twin.device.type == DEVICE
    assert first_difference(host, twin.cpu()) is None


def test_deepcopy_of_parameters_and_gradients(device):
    parameter = torch.nn.Parameter(torch.ones(3, 4, device=device))
    leaf = torch.ones(3, 4, device=device, requires_grad=True)
    (leaf * 2).sum().backward()

    twin, other = copy.deepcopy(parameter), copy.deepcopy(leaf)

    assert isinstance(twin, torch.nn.Parameter) and twin.requires_grad
    assert twin.untyped_storage()._cdata != parameter.untyped_storage()._cdata
    assert torch.equal(other.grad.cpu(), torch.full((3, 4), 2.0))


def test_storages_hold_host_bytes(device):
    host = some(torch.float32)
    there = host.to(device)
    storage = there.untyped_storage()

    assert storage.nbytes() == host.untyped_storage().nbytes()
    assert bytes(storage.cpu()) == bytes(host.untyped_storage())
    assert bytes(copy.deepcopy(storage).cpu()) == bytes(host.untyped_storage())
    assert bytes(torch.UntypedStorage(8, device=device).fill_(3).cpu()) == b"\x03" * 8
    fresh = torch.UntypedStorage(storage.nbytes(), device=device)
    fresh.copy_(host.untyped_storage())
    assert bytes(fresh.cpu()) == bytes(storage.cpu())
    assert torch.equal(torch.tensor([], device=device).set_(fresh, 0, (7, 65), (65, 1)).cpu(), host)


def test_storages_resize_and_keep_what_fits(device):
    there = torch.arange(100, dtype=torch.int32, device=device)
    storage = there.untyped_storage()

    storage.resize_(800)
    assert storage.nbytes() == 800
    assert torch.equal(there.cpu(), torch.arange(100, dtype=torch.int32))
    storage.resize_(40)
    assert torch.equal(there[:10].cpu(), torch.arange(10, dtype=torch.int32))


def test_typed_storages_are_saved_too(device):
    storage = torch.arange(10, dtype=torch.float32, device=device).untyped_storage()

    back = torch.load(saved(storage), map_location="cpu", weights_only=True)

    assert bytes(back) == bytes(torch.arange(10, dtype=torch.float32).untyped_storage())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_safetensors_go_both_ways(dtype, device, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    host = some(dtype)
    path = str(tmp_path / "x.safetensors")

    safetensors.save_file({"x": host.to(device)}, path)
    assert first_difference(host, safetensors.load_file(path)["x"]) is None
    # Safetensors has a list of device names of its own; a number is the accelerator's card.
    there = safetensors.load_file(path, device=0 if DEVICE == "spyre" else DEVICE)["x"]
    assert there.device.type == DEVICE
    assert first_difference(host, there.cpu()) is None
    assert first_difference(host, safetensors.load(safetensors.save({"x": there}))["x"]) is None


@needs_spyre
def test_safetensors_save_a_module(device, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = torch.nn.Linear(70, 3).to(device)
    safetensors.save_model(model, str(tmp_path / "m.safetensors"))

    other = torch.nn.Linear(70, 3).to(device)
    safetensors.load_model(other, str(tmp_path / "m.safetensors"))

    assert torch.equal(other.weight.cpu(), model.weight.cpu())


@needs_spyre
def test_numpy_is_refused_with_the_remedy(device):
    numpy = pytest.importorskip("numpy")
    there = torch.ones(3, device=device)

    for call in (lambda: there.numpy(), lambda: numpy.asarray(there), lambda: numpy.array(there)):
        with pytest.raises(TypeError, match="cpu"):
            call()
    assert numpy.array_equal(there.numpy(force=True), numpy.ones(3))
    assert torch.equal(torch.from_numpy(numpy.ones(3)).to(device).cpu(), torch.ones(3).double())


@needs_spyre
def test_dlpack_is_served_or_refused_with_a_word(device):
    there = torch.arange(6, device=device).reshape(2, 3)

    try:
        back = torch.from_dlpack(there)
    except (RuntimeError, BufferError, TypeError, ValueError) as error:
        assert "spyre" in str(error).lower() or "dlpack" in str(error).lower(), error
    else:
        assert back.device == there.device
        assert torch.equal(back.cpu(), there.cpu())
    for call in (there.__dlpack_device__, there.__dlpack__):
        try:
            call()
        except (RuntimeError, BufferError, ValueError) as error:
            assert "spyre" in str(error).lower() or "dlpack" in str(error).lower(), error


@needs_spyre
def test_repr_says_where_the_tensor_is(device):
    there = torch.tensor([1.0, 2.0], dtype=torch.float16, device=device)

    assert repr(there).startswith("tensor([1., 2.], ")
    assert "device='spyre:0'" in repr(there) and "dtype=torch.float16" in repr(there)
    assert "device='spyre:0'" in repr(torch.empty(0, 3, device=device))
    assert "requires_grad=True" in repr(torch.ones(2, device=device, requires_grad=True))


@needs_spyre
def test_a_file_goes_from_profile_to_profile(tmp_path):
    path = tmp_path / "x.pt"
    host = torch.arange(-50, 50, dtype=torch.float16)
    torch.save(host.to("spyre"), path)

    text = f"""
import torch
x = torch.load({str(path)!r}, weights_only=True)
assert x.device.type == "spyre"
assert torch.equal(x.cpu(), torch.arange(-50, 50, dtype=torch.float16))
torch.save(x, {str(path)!r})
"""
    children.script(text, SPYRE_PROFILE="card")

    assert torch.equal(torch.load(path, map_location="cpu", weights_only=True), host)


@needs_spyre
def test_a_file_of_another_card_loads_onto_the_one_that_is_there(tmp_path):
    path = tmp_path / "x.pt"
    children.script(
        f"import torch; torch.save(torch.ones(3, device='spyre:1'), {str(path)!r})",
        AIU_WORLD_SIZE="2",
    )

    with pytest.raises(RuntimeError):
        torch.load(path, weights_only=True)
    assert torch.load(path, map_location="spyre:0", weights_only=True).device.index == 0
    assert torch.load(path, map_location={"spyre:1": "spyre:0"}, weights_only=True).device.index == 0


@needs_spyre
def test_tensors_reach_a_spawned_process_by_value(device, tmp_path):
    text = """
import pickle, torch, torch.multiprocessing as mp
def child(queue, back):
    back.put((pickle.loads(queue.get()) + 1).tolist())
if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, back))
    process.start()
    try:
        # PyTorch shares storages between processes by file, on the CPU alone: a value is what goes.
        queue.put(pickle.dumps(torch.ones(3, device="spyre")))
        assert back.get(timeout=60) == [2.0, 2.0, 2.0]
    finally:
        process.join(60)
"""
    path = tmp_path / "spawned.py"
    path.write_text(text)
    code, output = children.finish(children.start([str(path)]), 120)
    assert code == 0, output


def test_data_loader_batches_arrive_pinned_and_go_down(device):
    values = torch.arange(64, dtype=torch.float32).reshape(16, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(values), batch_size=4)

    seen = [batch[0].to(device, non_blocking=True) for batch in loader]

    assert torch.equal(torch.cat(seen).cpu(), values)
