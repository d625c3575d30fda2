"""Metadata of the installed package."""

from __future__ import annotations

import re
from importlib import metadata

import commands
import torch_spyre
from torch_spyre import _C, collect_env, version


def test_there_is_one_version(python):
    number = metadata.version("torch_spyre")
    assert torch_spyre.__version__ == version.__version__ == _C.__version__ == number
    assert collect_env.collect()["versions"]["torch_spyre"] == number
    assert commands.run("--version").split() == ["spyre", number]
    code = "import torch_spyre, sys; assert 'torch_spyre._C' not in sys.modules; print(torch_spyre.__version__)"
    assert python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.split() == [number]


def test_the_metadata_says_what_it_is():
    about = metadata.metadata("torch_spyre")
    assert about["Summary"] and about["Description-Content-Type"].startswith("text/markdown")
    description = about.get_payload() or about["Description"]
    assert 'torch.device("spyre")' in description
    assert about["License-Expression"] == "Apache-2.0"
    assert about.get_all("License-File") == ["LICENSE"]
    assert any("Apache License" in path.read_text() for path in metadata.files("torch_spyre") if path.name == "LICENSE")
    assert all(re.fullmatch(r".+, https://\S+", url) for url in about.get_all("Project-URL"))
    assert about["Requires-Python"] == ">=3.10"
    classifiers = about.get_all("Classifier")
    for minor in range(10, 15):
        assert f"Programming Language :: Python :: 3.{minor}" in classifiers
    assert {"torch", "numpy"} == {re.match(r"\w+", need)[0] for need in about.get_all("Requires-Dist")}


def test_the_wheel_says_which_linux_it_needs():
    wheel = next(path for path in metadata.files("torch_spyre") if path.name == "WHEEL").read_text()
    tags = re.findall(r"^Tag: (.*)$", wheel, re.MULTILINE)
    assert tags and all(re.fullmatch(r"cp310-abi3-(manylinux_2_\d+|linux)_\w+", tag) for tag in tags)
    assert any("manylinux" in tag for tag in tags), "libraries of this machine fit no manylinux: see tools/python-env"
