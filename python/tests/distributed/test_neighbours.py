"""Packages that make groups themselves find the backend."""

import pytest

from . import ranks


@pytest.mark.parametrize("package", ["accelerate", "transformers"])
def test_packages_find_the_backend(package):
    for output in ranks.run("neighbours", 2, package):
        assert f"passed {package}" in output, output
