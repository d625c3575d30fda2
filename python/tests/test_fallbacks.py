"""Operations that the CPU does: warnings, counts, modes, and registrations of one's own."""

from __future__ import annotations

import warnings

import pytest
import torch

from torch_spyre.ops import eager, fallbacks
from torch_spyre.ops.fallbacks import FallbackWarning, register_fallback, register_fallback_default

LIBRARY = torch.library.Library("fallback_tests", "FRAGMENT")
LIBRARY.define("twice(Tensor x, float by=2.0) -> Tensor")
LIBRARY.define("both(Tensor x, Tensor y) -> (Tensor, Tensor)")
LIBRARY.define("fill_(Tensor(a!) self, Scalar value) -> Tensor(a!)")
LIBRARY.define("sum.out(Tensor[] xs, *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.define("shift(Tensor(a!) x, Tensor y) -> ()")
LIBRARY.define("noise(Tensor x, *, Generator? generator=None) -> Tensor")
LIBRARY.define("refused(Tensor x) -> Tensor")
LIBRARY.define("part(Tensor(a) x) -> Tensor(a)")


@pytest.fixture(autouse=True)
def counted_from_zero():
    mode = fallbacks.set_fallback_mode("warn")
    torch.spyre.reset_fallback_stats()
    yield
    fallbacks.set_fallback_mode(mode)


def warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [w for w in caught if issubclass(w.category, FallbackWarning)]


def test_an_operation_warns_once():
    x = torch.tensor([[1.5, -2.0], [0.0, 3.0]], device="spyre")

    caught = warnings_of(lambda: [torch.matrix_exp(x) for _ in range(3)])

    assert [str(w.message) for w in caught] == ["aten::linalg_matrix_exp is falling back to cpu"]
    assert caught[0].filename == __file__
    assert torch.spyre.fallback_stats() == {"aten::linalg_matrix_exp": 3}
    assert issubclass(FallbackWarning, UserWarning)


def test_counts_start_anew_and_so_do_warnings():
    x = torch.eye(2).to("spyre")
    assert len(warnings_of(lambda: torch.matrix_exp(x))) == 1
    assert len(warnings_of(lambda: torch.matrix_exp(x))) == 0

    torch.spyre.reset_fallback_stats()
    assert torch.spyre.fallback_stats() == {}
    assert len(warnings_of(lambda: torch.matrix_exp(x))) == 1


def test_silence():
    assert fallbacks.set_fallback_mode("silent") == "warn"
    x = torch.eye(2).to("spyre")

    assert warnings_of(lambda: torch.matrix_exp(x)) == []
    assert torch.spyre.fallback_stats() == {"aten::linalg_matrix_exp": 1}
    assert fallbacks.fallback_mode() == "silent"


def test_errors():
    x = torch.eye(2).to("spyre")
    fallbacks.set_fallback_mode("error")

    for _ in range(2):
        with pytest.raises(NotImplementedError, match="aten::linalg_matrix_exp .*SPYRE_FALLBACK=error"):
            torch.matrix_exp(x)
    assert x.cpu().tolist() == [[1, 0], [0, 1]], "copies are no fallback"
    assert torch.spyre.fallback_stats() == {}


def test_warnings_can_be_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="FallbackWarning: aten::linalg_matrix_exp is falling back to cpu"):
            torch.matrix_exp(torch.eye(2).to("spyre"))


def test_what_a_program_says_of_warnings_counts(python):
    run = python("import torch; torch.matrix_exp(torch.eye(2).to('spyre'))", "-W", "ignore")
    assert run.stderr == ""


def test_unknown_modes_are_refused():
    with pytest.raises((RuntimeError, ValueError), match="error.*warn.*silent"):
        fallbacks.set_fallback_mode("loud")
    assert fallbacks.fallback_mode() == "warn"


@pytest.mark.parametrize("mode", ["warn", "error", "silent", None])
def test_the_mode_comes_from_the_environment(python, mode):
    run = python(
        "import torch; print(torch.matrix_exp(torch.eye(2).to('spyre')).tolist())",
        check=False, SPYRE_FALLBACK=mode,
    )  # fmt: skip

    assert (run.returncode == 0) is (mode != "error"), run.stderr
    assert ("NotImplementedError" in run.stderr) is (mode == "error")
    assert ("FallbackWarning: aten::linalg_matrix_exp is falling back to cpu" in run.stderr) is (mode in ("warn", None))


def test_a_bad_mode_in_the_environment_raises(python):
    run = python("import torch; torch.matrix_exp(torch.eye(2).to('spyre'))", check=False, SPYRE_FALLBACK="loud")

    assert run.returncode != 0
    assert "SPYRE_FALLBACK" in run.stderr and "loud" in run.stderr


def test_a_user_registers_a_fallback_of_their_own():
    seen = []

    @register_fallback("fallback_tests::twice")
    def twice(x, by=2.0):
        seen.append((x.device.type, by))
        return x * by

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="spyre")
    caught = warnings_of(lambda: seen.append(torch.ops.fallback_tests.twice(x.t(), by=3.0)))

    assert seen[0] == ("cpu", 3.0)
    assert seen[1].device == x.device and seen[1].tolist() == [[3, 9], [6, 12]]
    assert [str(w.message) for w in caught] == ["fallback_tests::twice is falling back to cpu"]
    assert torch.spyre.fallback_stats()["fallback_tests::twice"] == 1
    assert "fallback_tests::twice" in fallbacks.fallback_ops
    assert twice(torch.ones(1)).tolist() == [2], "the function itself is as it was"

    @register_fallback(torch.ops.fallback_tests.twice.default)
    def again(x, by=2.0):
        return x - by

    assert torch.ops.fallback_tests.twice(x).tolist() == [[-1, 0], [1, 2]], "the last registration counts"
    assert fallbacks.fallback_ops.count("fallback_tests::twice") == 1


def test_a_user_registers_a_default_fallback():
    register_fallback_default("aten::hypot")
    assert "aten::hypot" in fallbacks.fallback_ops and "aten::hypot.out" in fallbacks.fallback_ops
    x, y = torch.tensor([3.0, 5.0], device="spyre"), torch.tensor([4.0, 12.0], device="spyre")

    assert torch.hypot(x, y).tolist() == [5, 13]
    out = torch.empty(2, device="spyre")
    assert torch.hypot(x, y, out=out) is out
    assert out.tolist() == [5, 13]
    assert x.hypot_(y) is x and x.tolist() == [5, 13]
    assert torch.spyre.fallback_stats() == {"aten::hypot": 1, "aten::hypot.out": 2}, "in place is a form of out="


def test_results_of_several_tensors_go_back():
    @register_fallback("fallback_tests::both")
    def both(x, y):
        return x + y, x - y

    x, y = torch.tensor([5.0], device="spyre"), torch.tensor([3.0], device="spyre")
    total, difference = torch.ops.fallback_tests.both(x, y)
    assert (total.tolist(), difference.tolist(), total.device.type, difference.device.type) == ([8], [2], "spyre", "spyre")


def test_what_is_written_to_is_what_is_returned():
    @register_fallback("fallback_tests::fill_")
    def fill_(self, value):
        return self.fill_(value)

    x = torch.zeros(4, 4, device="spyre")
    part = x[1:3, ::2]
    assert torch.ops.fallback_tests.fill_(part, 7) is part
    assert x.sum().item() == 7 * 4 and x[1].tolist() == [7, 0, 7, 0]


def test_an_out_of_another_size_is_resized():
    @register_fallback("fallback_tests::sum.out")
    def sum_out(xs, *, out):
        return torch.sum(torch.stack(xs), 0, out=out)

    xs, out = [torch.ones(3, device="spyre"), torch.full((3,), 2.0, device="spyre")], torch.empty(0, device="spyre")
    assert torch.ops.fallback_tests.sum.out(xs, out=out) is out
    assert out.tolist() == [3, 3, 3]


def test_tensors_that_share_memory_share_it_on_the_host():
    @register_fallback("fallback_tests::shift")
    def shift(x, y):
        for i in range(x.numel()):
            x[i] = y[i] + 1

    x = torch.zeros(5, device="spyre")
    torch.ops.fallback_tests.shift(x[1:], x[:-1])
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_factories_make_tensors_of_the_device():
    @register_fallback("aten::bartlett_window.default")
    def bartlett_window(length, *, device=None, **others):
        assert device == torch.device("cpu")
        return torch.arange(length)

    result = torch.bartlett_window(3, device="spyre")
    assert (result.device.type, result.tolist()) == ("spyre", [0, 1, 2])


def test_generators_go_to_the_host():
    @register_fallback("fallback_tests::noise")
    def noise(x, *, generator=None):
        assert generator.device.type == "cpu"
        return torch.rand(x.shape, generator=generator)

    def draw(generator):
        return torch.ops.fallback_tests.noise(torch.empty(8, device="spyre"), generator=generator).cpu()

    generator = torch.Generator("spyre").manual_seed(3)
    first, second = draw(generator), draw(generator)
    assert not torch.equal(first, second)
    assert torch.equal(draw(torch.Generator("spyre").manual_seed(3)), first)


def test_errors_of_the_function_are_raised():
    @register_fallback("fallback_tests::refused")
    def refused(x):
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        torch.ops.fallback_tests.refused(torch.ones(1, device="spyre"))


def test_tensors_of_two_devices_are_refused_as_usual():
    register_fallback_default("aten::hypot")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two devices"):
        torch.hypot(torch.ones(3, device="spyre"), torch.ones(3))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.special.zeta(torch.ones(3, device="spyre"), torch.ones(3))
    assert torch.hypot(torch.ones(1, device="spyre") * 3, torch.tensor(4.0)).tolist() == [5], "numbers go with any"


def test_views_cannot_be_fallbacks():
    with pytest.raises(ValueError, match="gives a view of its argument"):
        register_fallback("fallback_tests::part.default")(lambda x: x)
    with pytest.raises(ValueError, match="there is no operation 'aten::nonsense'"):
        register_fallback_default("aten::nonsense")


def test_gradients_flow_through_fallbacks():
    x = torch.tensor([0.5, 1.0], device="spyre", requires_grad=True)
    torch.erf(x).sum().backward()
    expected = torch.tensor([0.5, 1.0], requires_grad=True)
    torch.erf(expected).sum().backward()
    assert torch.allclose(x.grad.cpu(), expected.grad)


def test_kernels_of_the_device(python):
    code = """
        import torch
        from torch_spyre.ops.eager import eager_mode, eager_ops, register_eager
        from torch_spyre.ops.fallbacks import set_fallback_mode
        set_fallback_mode("silent")
        @register_eager("aten::trace.default")
        def trace(x):
            assert x.device.type == "spyre"
            return x[0, 0] * 7
        y = torch.trace(torch.eye(2).to("spyre")).item()
        print(eager_mode(), eager_ops, y == 7, "aten::trace" in torch.spyre.fallback_stats())
    """
    assert python(code).stdout.split("\n")[0] == "True ['aten::trace'] True False"
    assert python(code, EAGER_MODE="0").stdout.split("\n")[0] == "False [] False True"
    assert "EAGER_MODE is 'fast': give 1" in python(code, check=False, EAGER_MODE="fast").stderr
    assert eager.eager_mode() is True
