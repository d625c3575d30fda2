"""The page about many processes is run as it stands, by torchrun."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "distributed.md").read_text()


def test_the_page(tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (shell,) = re.findall(r"^```shell\ntorchrun (.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text(code)

    arguments = [sys.executable, "-m", "torch.distributed.run", "--standalone", *shell.split()]
    environment = {**os.environ, "SPYRE_MEMORY_LIMIT": "1G"}
    environment.pop("AIU_WORLD_SIZE", None)
    run = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180)

    assert run.returncode == 0, run.stderr
    assert re.search(r"loss of 2 ranks: \d\.\d+ on spyre:0", run.stdout), run.stdout + run.stderr
