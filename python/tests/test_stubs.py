"""The stubs say what the extension has, and the package says what its functions take."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import torch_spyre
from torch_spyre import _C

PACKAGE = Path(torch_spyre.__file__).parent
STUB = ast.parse((PACKAGE / "_C.pyi").read_text())


def of_the_stub(kind):
    return {node.name: node for node in STUB.body if isinstance(node, kind)}


def names_of_the_stub():
    names = set(of_the_stub((ast.FunctionDef, ast.ClassDef)))
    for node in STUB.body:
        if isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname}
    return names


def is_dunder(name):
    return name.startswith("__") and name.endswith("__")


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()


def test_the_stub_has_every_name_of_the_extension_and_no_other():
    from torch_spyre._module import _IN_THE_EXTENSION

    known = {name for name in dir(_C) if not is_dunder(name)} | {"__version__"} | set(_IN_THE_EXTENSION)
    assert names_of_the_stub() == known


def parameters(node):
    arguments = node.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


@pytest.mark.parametrize("name", sorted(of_the_stub(ast.FunctionDef)))
def test_functions_take_what_the_stub_says(name):
    function, node = getattr(_C, name), of_the_stub(ast.FunctionDef)[name]

    assert callable(function)
    signature = inspect.signature(function)
    assert list(signature.parameters) == parameters(node)
    required = [p.name for p in signature.parameters.values() if p.default is p.empty]
    optional = len(node.args.defaults) + sum(default is not None for default in node.args.kw_defaults)
    assert len(required) == len(parameters(node)) - optional
    assert node.returns is not None, "stubs are typed"


@pytest.mark.parametrize("name", sorted(of_the_stub(ast.ClassDef)))
def test_classes_have_what_the_stub_says(name):
    members = of_the_stub(ast.ClassDef)[name].body
    names = {m.name for m in members if isinstance(m, ast.FunctionDef)}
    names |= {m.target.id for m in members if isinstance(m, ast.AnnAssign)}
    public = {member for member in vars(getattr(_C, name)) if not member.startswith("_")}

    assert public <= names, "the stub misses some"
    assert {member for member in names if not is_dunder(member)} <= set(dir(getattr(_C, name)))


def modules():
    names = [m.name for m in pkgutil.walk_packages([str(PACKAGE)], "torch_spyre.")]
    ours = ("_devices", "_module", "_runtime", "amp", "collect_env", "devices", "graphs", "logging_config", "memory", "ops.eager",
            "ops.fallbacks", "printing", "profiler", "properties", "random", "streams")  # fmt: skip
    return [name for name in names if name.removeprefix("torch_spyre.") in ours]


@pytest.mark.parametrize("name", modules())
def test_public_functions_are_typed_and_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__, name
    for attribute, value in vars(module).items():
        is_ours = inspect.isfunction(value) and value.__module__ == name and not attribute.startswith("_")
        if not is_ours:
            continue
        assert value.__doc__, f"{name}.{attribute} has no doc"
        signature = inspect.signature(value)
        assert signature.return_annotation is not signature.empty, f"{name}.{attribute} says not what it returns"
        untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        assert not untyped, f"{name}.{attribute}: {untyped}"


@pytest.mark.parametrize("name", [name for name in modules() if name != "torch_spyre._module"])
def test_all_lists_what_is_there(name):
    module = importlib.import_module(name)
    assert all(hasattr(module, listed) for listed in getattr(module, "__all__", []))
