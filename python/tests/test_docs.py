"""The pages about the device and about kernels, and the examples, are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pytorch.md").read_text()
KERNELS = (ROOT / "docs" / "kernels.md").read_text()
COMPILE = (ROOT / "docs" / "compile.md").read_text()
README = (ROOT / "README.md").read_text()
OF_THE_WHEEL = (ROOT / "python" / "README.md").read_text()
EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))


def blocks(language, page=PAGE):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def run(arguments, folder):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=180)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_page(tmp_path):
    code = blocks("python")
    assert len(code) >= 10
    (tmp_path / "page.py").write_text("\n".join(code))

    out = run([sys.executable, "page.py"], tmp_path)
    assert "Memory of spyre:0" in out
    (shell,) = blocks("shell")
    for line in shell.splitlines():
        assert "total_allocated" in run(["sh", "-c", line], tmp_path)


def test_kernels_of_the_page(tmp_path):
    (tmp_path / "kernels.py").write_text("\n".join(blocks("python", KERNELS)))
    assert "line 3, column 6: nothing is called `z`" in run([sys.executable, "kernels.py"], tmp_path)


def test_graphs_of_the_page(tmp_path):
    (tmp_path / "graphs.py").write_text("\n".join(blocks("python", COMPILE)))
    run([sys.executable, "graphs.py"], tmp_path)


def test_the_readme(tmp_path):
    (code,) = blocks("python", README)
    (tmp_path / "readme.py").write_text(code)
    assert "Memory of spyre:0" in run([sys.executable, "readme.py"], tmp_path)


def test_the_readme_of_the_wheel(tmp_path):
    (code,) = blocks("python", OF_THE_WHEEL)
    (tmp_path / "readme.py").write_text(f"{code}\nprint(y.shape)")
    assert "torch.Size([4, 8])" in run([sys.executable, "readme.py"], tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples(example, tmp_path):
    assert len(run([sys.executable, str(example)], tmp_path).splitlines()) >= 2


def test_examples_are_numbered():
    assert [path.name.split("-")[0] for path in EXAMPLES] == [f"{n:02}" for n in range(1, len(EXAMPLES) + 1)]
    assert all(f"python examples/python/{path.name}" in path.read_text() for path in EXAMPLES)
