"""Optimisers on the card: every form of each, as the CPU's, and without it."""

import pytest
import torch

from conftest import needs_spyre

pytestmark = needs_spyre
SHAPES = [(5, 70), (3,), (), (2, 3, 4, 9), (0, 3)]
STEPS = 4


@pytest.fixture(autouse=True)
def seeded(no_fallback):
    torch.manual_seed(1234)


FUSED = {
    "Adam": {},
    "Adam, amsgrad": {"amsgrad": True, "weight_decay": 0.1},
    "Adam, maximize": {"maximize": True, "betas": (0.8, 0.95)},
    "AdamW": {},
    "AdamW, decay": {"weight_decay": 0.3, "eps": 1e-4},
    "SGD": {"lr": 0.1},
    "SGD, momentum": {"lr": 0.1, "momentum": 0.9, "dampening": 0.2},
    "SGD, nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    "Adagrad": {"lr_decay": 0.1, "weight_decay": 0.1},
}
OTHERS = dict.fromkeys(
    "RMSprop Adamax NAdam RAdam Adadelta ASGD Rprop RMSprop".split(), {}
) | {"RMSprop, centered": {"centered": True, "momentum": 0.9}}  # fmt: skip
FORMS = [(name, form) for name in FUSED for form in ("fused", "foreach", "for")]
FORMS += [(name, form) for name in OTHERS for form in ("foreach", "for")]


def trained(name, device, dtype=torch.float32, form="for", **more):
    """Parameters after a few steps with gradients that are the same everywhere."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda: [torch.randn(shape, generator=generator) for shape in SHAPES]  # noqa: E731
    parameters = [torch.nn.Parameter(x.to(device, dtype)) for x in draw()]
    options = {**FUSED, **OTHERS}[name] | more
    how = {"fused": True} if form == "fused" else {"foreach": form == "foreach"}
    optimiser = getattr(torch.optim, name.split(",")[0])(parameters, **options, **how)
    for _ in range(STEPS):
        for parameter, grad in zip(parameters, draw()):
            parameter.grad = grad.to(device, dtype)
        optimiser.step()
        optimiser.zero_grad()
    return [parameter.detach().cpu() for parameter in parameters]


@pytest.mark.parametrize(("name", "form"), FORMS, ids=lambda value: value)
def test_steps_are_the_cpus(name, form):
    torch.testing.assert_close(trained(name, "spyre", form=form), trained(name, "cpu"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["AdamW", "SGD, nesterov"])
def test_parameters_of_other_dtypes(name, dtype):
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    expected = [x.to(dtype) for x in trained(name, "cpu", torch.float64)]
    torch.testing.assert_close(trained(name, "spyre", dtype, "fused"), expected, **tolerance)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD, momentum", "Adagrad"])
def test_a_rate_may_be_a_tensor(name):
    if name == "Adagrad":
        pytest.skip("PyTorch's Adagrad takes numbers only")
    rate = FUSED[name].get("lr", 1e-3)
    with_tensor = trained(name, "spyre", form="fused", lr=torch.tensor(rate, device="spyre"))
    torch.testing.assert_close(with_tensor, trained(name, "cpu"), rtol=1e-5, atol=1e-6)


def test_states_go_to_the_cpu_and_back():
    parameter = torch.nn.Parameter(torch.randn(7, device="spyre"))
    optimiser = torch.optim.AdamW([parameter], fused=True)
    parameter.grad = torch.randn(7, device="spyre")
    optimiser.step()
    state = optimiser.state_dict()
    again = torch.optim.AdamW([parameter], fused=True)
    again.load_state_dict(state)
    again.step()
    assert again.state[parameter]["step"].item() == 2
    assert again.state[parameter]["step"].device.type == "spyre"


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("kind", [2.0, 1.0, float("inf")])
def test_gradients_are_clipped(kind, foreach):
    def clipped(device):
        parameters = [torch.nn.Parameter(torch.zeros(shape, device=device)) for shape in SHAPES[:4]]
        generator = torch.Generator().manual_seed(9)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(device)
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.5, kind, foreach=foreach)
        return [norm.cpu(), *(parameter.grad.cpu() for parameter in parameters)]

    torch.testing.assert_close(clipped("spyre"), clipped("cpu"))


def test_gradients_are_clipped_by_value():
    parameter = torch.nn.Parameter(torch.zeros(40, device="spyre"))
    parameter.grad = torch.linspace(-2, 2, 40).to("spyre")
    torch.nn.utils.clip_grad_value_([parameter], 0.5)
    assert parameter.grad.abs().max().item() == 0.5


FOREACH = {
    "add": lambda x, y: torch._foreach_add(x, y, alpha=2),
    "sub": torch._foreach_sub,
    "mul": torch._foreach_mul,
    "div": torch._foreach_div,
    "maximum": torch._foreach_maximum,
    "minimum": torch._foreach_minimum,
    "add a number": lambda x, y: torch._foreach_add(x, 1.5),
    "numbers": lambda x, y: torch._foreach_mul(x, [1.5, -2.0]),
    "lerp": lambda x, y: torch._foreach_lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch._foreach_addcmul(x, x, y, value=0.5),
    "addcdiv": lambda x, y: torch._foreach_addcdiv(x, x, y, value=0.5),
    "addcdiv, numbers": lambda x, y: torch._foreach_addcdiv(x, x, y, [0.5, 0.25]),
    "pow": lambda x, y: torch._foreach_pow(torch._foreach_abs(x), 1.5),
    "sqrt": lambda x, y: torch._foreach_sqrt(torch._foreach_abs(x)),
    "reciprocal": lambda x, y: torch._foreach_reciprocal(x),
    "exp": lambda x, y: torch._foreach_exp(x),
    "neg": lambda x, y: torch._foreach_neg(x),
    "sign": lambda x, y: torch._foreach_sign(x),
    "norm": lambda x, y: torch._foreach_norm(x),
    "norm of 1": lambda x, y: torch._foreach_norm(x, 1),
    "max": lambda x, y: torch._foreach_max(x),
    "clamp": lambda x, y: torch._foreach_clamp_max(x, 0.5),
}


@pytest.mark.parametrize("name", FOREACH)
def test_lists_of_tensors_are_computed_one_by_one(name):
    x, y = ([torch.randn(5, 70), torch.randn(3)] for _ in range(2))
    on_card = lambda tensors: [tensor.to("spyre") for tensor in tensors]  # noqa: E731
    result = [tensor.cpu() for tensor in FOREACH[name](on_card(x), on_card(y))]
    torch.testing.assert_close(result, list(FOREACH[name](x, y)))


def test_lists_of_tensors_are_changed_in_place():
    x = [torch.ones(4, device="spyre"), torch.ones(2, 3, device="spyre")]
    torch._foreach_add_(x, 1)
    torch._foreach_mul_(x, x)
    torch._foreach_copy_(x, [tensor * 2 for tensor in x])
    assert [tensor.cpu().unique().tolist() for tensor in x] == [[8], [8]]
    torch._foreach_zero_(x)
    assert not any(tensor.any().item() for tensor in x)


@pytest.mark.parametrize("fused", [True, False])
def test_scaled_gradients_are_brought_back(fused):
    parameter = torch.nn.Parameter(torch.ones(9, device="spyre"))
    optimiser = torch.optim.SGD([parameter], lr=0.5, fused=fused)
    scaler = torch.amp.GradScaler("spyre", init_scale=1024.0, growth_interval=2)

    scaler.scale((parameter * 2).sum()).backward()
    scaler.step(optimiser)
    scaler.update()
    assert parameter.detach().cpu().unique().tolist() == [0]
    assert scaler.get_scale() == 1024.0

    optimiser.zero_grad()
    scaler.scale((parameter * 2).sum()).backward()
    scaler.step(optimiser)
    scaler.update()
    assert scaler.get_scale() == 2048.0, "after two good steps it grows"


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), -float("inf")])
@pytest.mark.parametrize("fused", [True, False])
def test_a_gradient_that_is_not_finite_leaves_parameters_alone(bad, fused):
    parameters = [torch.nn.Parameter(torch.ones(shape, device="spyre")) for shape in [(9, 70), (3,)]]
    optimiser = torch.optim.AdamW(parameters, fused=fused)
    scaler = torch.amp.GradScaler("spyre", init_scale=1024.0)
    factors = torch.ones(9, 70)
    factors[7, 66] = bad
    loss = (parameters[0] * factors.to("spyre")).sum() + parameters[1].sum()
    scaler.scale(loss).backward()
    scaler.step(optimiser)
    scaler.update()

    assert all(parameter.detach().cpu().unique().tolist() == [1] for parameter in parameters)
    assert scaler.get_scale() == 512.0
