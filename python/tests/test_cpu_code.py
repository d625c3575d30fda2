"""Programs for the CPU: with the device installed they do what they do without it."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch.overrides import TorchFunctionMode, get_testing_overrides, resolve_name

FUNCTIONS = [
    "empty", "empty_strided", "empty_permuted", "zeros", "ones", "full", "rand", "randn", "randint", "randperm",
    "arange", "range", "linspace", "logspace", "eye", "tensor", "as_tensor", "asarray", "scalar_tensor", "empty_like",
    "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
]  # fmt: skip
METHODS = ["to", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "new_tensor"]

SNIPPETS = {
    "lazy modules": """
        layer = torch.nn.LazyLinear(3).to(torch.float64)
        print(layer, layer(torch.ones(2, 4, dtype=torch.float64)).shape)
        print(torch.nn.LazyConv2d(3, 2).to("meta"))
    """,
    "__torch_function__": """
        seen = []
        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append((func is torch.zeros_like, func is torch.Tensor.to, func is torch.Tensor.new_zeros))
                return super().__torch_function__(func, types, args, kwargs)
        own = torch.ones(3).as_subclass(Own)
        torch.zeros_like(own), own.to(torch.float64), own.new_zeros(2), own + 1
        print(seen)
    """,
    "modes": """
        from torch.overrides import TorchFunctionMode
        class Mode(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                print(func in (torch.zeros, torch.empty, torch.Tensor.to), torch.overrides.resolve_name(func))
                return func(*args, **(kwargs or {}))
        with Mode():
            torch.zeros(3).to(torch.int8), torch.empty(2), torch.tensor(1)
    """,
    "references": """
        import torch._refs
        from torch._prims.context import TorchRefsMode
        with TorchRefsMode():
            print(torch.zeros(3), torch.full((2,), 1.5), torch.arange(4), torch.ones(2).to(torch.int64))
    """,
    "names": """
        for name in NAMES:
            function = getattr(torch, name)
            print(name, type(function), function.__name__, function.__qualname__, function.__module__)
            print(torch.overrides.resolve_name(function), torch.overrides.is_tensor_method_or_property(function))
            print(torch.overrides.get_testing_overrides().get(function) is None, hash(function.__doc__ or "") != 0)
        for name in METHODS:
            method = getattr(torch.Tensor, name)
            print(type(method), method.__qualname__, method.__objclass__, torch.overrides.resolve_name(method))
            print(name in vars(torch.Tensor), method is getattr(torch._C.TensorBase, name))
    """,
    "overrides": """
        overridable = torch.overrides.get_overridable_functions()
        print([name for name in NAMES if getattr(torch, name) in overridable.get(torch, [])])
        print([name for name in METHODS if getattr(torch.Tensor, name) in overridable.get(torch.Tensor, [])])
        print(torch.from_dlpack in torch.overrides.get_ignored_functions())
    """,
    "pickles": """
        import copy, pickle
        for name in NAMES:
            function = getattr(torch, name)
            print(pickle.dumps(function), copy.copy(function) is function, copy.deepcopy(function) is function)
        for name in METHODS:
            print(pickle.dumps(getattr(torch.Tensor, name)))
        print(pickle.dumps(torch.nn.Module.to), pickle.dumps(torch.Tensor.__repr__))
    """,
    "wraps": """
        import functools, inspect, typing
        to = torch.nn.Module.to
        print(to.__name__, to.__qualname__, to.__module__, to.__doc__ == inspect.getdoc(to) or len(to.__doc__))
        print(inspect.signature(to), to.__annotations__, len(typing.get_overloads(to)))
        print(inspect.getsource(to)[:40])
        wrapped = functools.wraps(torch.zeros)(lambda *a: torch.zeros(*a))
        print(wrapped.__name__, wrapped(2))
    """,
    "TorchScript": """
        def made(x: torch.Tensor) -> torch.Tensor:
            y = torch.zeros([2], dtype=x.dtype) + torch.ones_like(x) + torch.full([2], 2.0)
            return y.to(torch.float64) + x.new_zeros([2])
        file = pathlib.Path(tempfile.mkdtemp()) / "made.py"
        file.write_text("import torch\\n" + textwrap.dedent(inspect.cleandoc(MADE)))
        spec = importlib.util.spec_from_file_location("made", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        scripted = torch.jit.script(module.made)
        print(scripted(torch.ones(2)), scripted.code)
        print(torch.jit.trace(module.made, torch.ones(2)).code)
    """,
    "fx": """
        def made(x):
            return torch.zeros(2) + x.to(torch.float64) + torch.ones_like(x) + x.new_full((2,), 3)
        print(torch.fx.symbolic_trace(made).code)
        print(torch.fx.experimental.proxy_tensor.make_fx(made)(torch.ones(2)).code)
    """,
    "compile": """
        def made(x):
            return torch.zeros(2) + x.to(torch.float64) + torch.ones_like(x) + x.new_full((2,), 3)
        graphs = []
        def backend(graph, inputs):
            graphs.append(graph.code)
            return graph.forward
        print(torch.compile(made, backend=backend, fullgraph=True)(torch.ones(2)), graphs)
        layer = torch.nn.Linear(2, 2)
        torch.compile(lambda x: layer.to(torch.float64)(x), backend=backend)(torch.ones(2, dtype=torch.float64))
        print(layer.weight.dtype)
    """,
    "device contexts": """
        with torch.device("meta"):
            print([getattr(torch, name)(2).device for name in ("empty", "zeros", "rand", "arange", "eye")])
            print(torch.tensor(1).device, torch.nn.Linear(2, 2).weight.device)
    """,
    "wrong calls": """
        for call in (
            lambda: torch.zeros(), lambda: torch.zeros(2, wrong=1), lambda: torch.ones(3).to(1, 2, 3, 4, 5, 6),
            lambda: torch.Tensor.to(3), lambda: torch.empty("a"), lambda: torch.tensor(), lambda: torch.full(2),
            lambda: torch.nn.Linear(2, 2).to("nowhere"), lambda: torch.nn.Linear(2, 2).to(torch.int8),
            lambda: torch.nn.Linear(2, 2).to(1, 2, 3, 4), lambda: torch.nn.Linear(2, 2).to(),
        ):
            try:
                print(call())
            except Exception as error:
                print(type(error), str(error).splitlines()[0])
    """,
    "random states": """
        torch.manual_seed(3)
        print(torch.rand(2), torch.get_rng_state().sum())
        with torch.random.fork_rng(devices=[]):
            torch.rand(5)
        print(torch.rand(2), torch.seed() >= 0)
    """,
    "fake tensors": """
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            print(torch.zeros(2, 3), torch.ones(2).to(torch.int8), torch.nn.Linear(2, 2)(torch.ones(2)))
            print(torch.get_rng_state().shape)
    """,
    "interchange": """
        import numpy
        x = torch.arange(3)
        print(torch.from_dlpack(x), torch.utils.dlpack.from_dlpack is torch.from_dlpack, numpy.from_dlpack(x))
        print(x.__dlpack_device__(), x.untyped_storage().is_shared(), x.share_memory_().is_shared())
        print(inspect.signature(torch.from_dlpack), inspect.signature(torch.Tensor.__dlpack__))
    """,
}

MADE = """
def made(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros([2], dtype=x.dtype) + torch.ones_like(x) + torch.full([2], 2.0)
    return y.to(torch.float64) + x.new_zeros([2])
"""

RUN_ALL = """
import contextlib, importlib.util, inspect, io, json, pathlib, sys, tempfile, textwrap, traceback, warnings
import torch
warnings.simplefilter("ignore")
given = json.load(sys.stdin)
names = {"torch": torch, "inspect": inspect, "pathlib": pathlib, "tempfile": tempfile, "textwrap": textwrap,
         "importlib": importlib, "NAMES": given["functions"], "METHODS": given["methods"], "MADE": given["made"]}
printed = {}
for name, code in given["snippets"].items():
    lines = io.StringIO()
    with contextlib.redirect_stdout(lines):
        try:
            exec(compile(textwrap.dedent(code), name, "exec"), dict(names))
        except Exception:
            print("".join(traceback.format_exc().splitlines()[-1:]))
    printed[name] = lines.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Output of each snippet, without the device and with it. All snippets of a side run in one process."""
    import json
    import os
    import subprocess
    import sys

    given = json.dumps({"snippets": SNIPPETS, "functions": FUNCTIONS, "methods": METHODS, "made": MADE})
    outcomes = []
    for loads in ("0", "1"):
        variables = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": loads}
        command = [sys.executable, "-c", RUN_ALL]
        run = subprocess.run(command, input=given, env=variables, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr
        outcomes.append(json.loads(run.stdout.splitlines()[-1]))
    return outcomes


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_program_for_the_cpu_sees_no_difference(printed, name):
    without, with_device = printed
    assert "Error" not in without[name] or name == "wrong calls", without[name]
    assert with_device[name] == without[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_with_keywords_is_pytorchs_own(name):
    function = getattr(torch, name)
    assert function is getattr(torch._C._VariableFunctions, name)
    assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function
    assert resolve_name(function) == f"torch.{name}"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_with_keywords_is_pytorchs_own(name):
    method = getattr(torch.Tensor, name)
    assert name not in vars(torch.Tensor) and method is getattr(torch._C.TensorBase, name)
    assert name != "to" or method in get_testing_overrides()


def test_modes_see_what_a_call_with_keywords_is_made_of():
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    with Mode():
        made = torch.zeros(4, 5, device="spyre", stick_dims=[0])
    assert made.get_stick_dims() == [0]
    assert torch.zeros in seen


@pytest.mark.parametrize("wrong", [3, len, torch.ones(2), torch.nn.Module.to, torch.Tensor.dim])
def test_keywords_are_added_to_functions_that_take_any(wrong):
    from torch_spyre import _C

    with pytest.raises((RuntimeError, AttributeError)):
        _C._add_keywords(wrong, print)
