"""The upstream driver runs, and says what it did not measure."""

import re
import subprocess
import sys
from pathlib import Path

from conftest import needs_spyre

DRIVER = Path(__file__).with_name("run.py")

DYING = """
import os, torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

class TestDying(TestCase):
    def test_a_passes(self, device):
        self.assertEqual(torch.ones(2, device=device).cpu(), torch.ones(2))
    def test_b_dies(self, device):
        os.kill(os.getpid(), 9)
    def test_c_fails(self, device):
        self.assertEqual(torch.ones(2, device=device).cpu(), torch.zeros(2))
    def test_d_passes(self, device):
        self.assertEqual(torch.device(device).type, "spyre")

instantiate_device_type_tests(TestDying, globals())

class TestOfTheCpu(TestCase):
    def test_e_passes_but_says_nothing_of_the_device(self):
        self.assertEqual(torch.ones(2), torch.ones(2))
"""


def drive(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, str(DRIVER), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


@needs_spyre
def test_without_a_tree_it_runs_our_own_file_and_says_what_is_not_measured():
    code, text = drive("--bar", "1.0")

    assert code == 0, text
    assert text.count("NOT MEASURED") == 2
    rows = re.findall(r"device_type.py +(\d+) +(\d+) +(\d+)", text)
    assert len(rows) == 2, text
    passed, failed, died = map(int, rows[0])
    assert passed > 30 and failed == died == 0
    print(text)


@needs_spyre
def test_a_test_that_kills_its_process_costs_itself_alone(tmp_path):
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_dying.py").write_text(DYING)

    code, text = drive("--torch-root", str(tmp_path), "--files", "test_dying.py", "--jobs", "1")

    assert code == 1
    passed, failed, died = map(int, re.search(r"test_dying.py +(\d+) +(\d+) +(\d+)", text).groups())
    assert (passed, failed, died) == (2, 1, 1), text


def test_a_folder_that_is_no_source_tree_is_refused(tmp_path):
    code, text = drive("--torch-root", str(tmp_path))

    assert code != 0
    assert "is it a PyTorch source tree?" in text
