"""``torch_spyre.logging_config``: levels, files, and the variables that set them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("torch_spyre").origin).parent


def load(**environment):
    """The module by itself: neither torch nor the package is imported for it."""
    spec = importlib.util.spec_from_file_location("logging_config_alone", PACKAGE / "logging_config.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.initialize(environment, force=True)
    return module


@pytest.fixture(autouse=True)
def quiet_afterwards():
    yield
    load()


def test_it_loads_without_torch():
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('alone', {str(PACKAGE / 'logging_config.py')!r})\n"
        "module = importlib.util.module_from_spec(spec); sys.modules['alone'] = module\n"
        "spec.loader.exec_module(module)\n"
        "print(module.get_log_level('spyre.runtime').name, 'torch' in sys.modules)\n"
    )
    environment = {"PATH": os.environ["PATH"], "TORCH_LOGS": "spyre.runtime:DEBUG"}
    run = subprocess.run([sys.executable, "-I", "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert run.stdout.split() == ["DEBUG", "False"], run.stderr


def test_levels_are_the_standard_librarys_and_one_above():
    log = load()

    assert [(level.name, int(level)) for level in log.LogLevel] == [
        ("NOTSET", 0), ("DEBUG", 10), ("INFO", 20), ("WARNING", 30), ("ERROR", 40), ("CRITICAL", 50), ("DISABLED", 60),
    ]  # fmt: skip
    assert log.LogLevel.parse("warn") is log.LogLevel.WARNING
    assert log.LogLevel.parse("25") is log.LogLevel.INFO
    with pytest.raises(ValueError, match="'loud' is none of NOTSET, DEBUG"):
        log.LogLevel.parse("loud")


def test_all_components_log_warnings_by_default():
    log = load()

    assert log.list_components() == [
        "spyre.inductor", "spyre.inductor.lowering", "spyre.inductor.stickify", "spyre.inductor.codegen",
        "spyre.inductor.passes", "spyre.runtime", "spyre.execution", "spyre.memory", "spyre.compiler", "spyre.device",
    ]  # fmt: skip
    assert set(log.get_effective_config().values()) == {log.LogLevel.WARNING}
    assert log.get_config_source("spyre.runtime") == "default"
    assert log.get_output_config() == {"log_file": None, "log_file_source": "default"}


def test_a_component_takes_its_level_from_the_nearest_above():
    log = load(TORCH_LOGS="dynamo,spyre.inductor:DEBUG")

    assert log.get_log_level("spyre.inductor.lowering") is log.LogLevel.DEBUG
    assert log.get_log_level("inductor.lowering") is log.LogLevel.DEBUG
    assert log.get_log_level("spyre.runtime") is log.LogLevel.WARNING
    assert log.get_config_source("spyre.inductor.lowering") == "TORCH_LOGS"


def test_the_last_word_counts():
    log = load(SPYRE_LOGS="inductor.lowering:ERROR,runtime")

    assert log.get_log_level("runtime") is log.LogLevel.DEBUG
    log.set_log_level("inductor", "INFO")
    assert log.get_log_level("inductor.lowering") is log.LogLevel.INFO
    assert log.get_config_source("inductor.lowering") == "programmatic"
    assert log.get_config_source("runtime") == "SPYRE_LOGS"


@pytest.mark.parametrize(
    ("environment", "component", "level", "source"),
    [
        ({"TORCH_LOGS": "+torch_spyre"}, "device", "DEBUG", "TORCH_LOGS"),
        ({"TORCH_LOGS": "-torch_spyre"}, "device", "ERROR", "TORCH_LOGS"),
        ({"TORCH_SPYRE_DEBUG": "1"}, "runtime", "DEBUG", "legacy:TORCH_SPYRE_DEBUG"),
        ({"TORCH_SPYRE_DEBUG": "0"}, "runtime", "WARNING", "default"),
        ({"SPYRE_INDUCTOR_LOG": "1"}, "inductor", "DEBUG", "legacy:SPYRE_INDUCTOR_LOG"),
        ({"SPYRE_INDUCTOR_LOG": "1", "SPYRE_INDUCTOR_LOG_LEVEL": "INFO"}, "inductor.passes", "INFO", "legacy:SPYRE_INDUCTOR_LOG"),
        ({"SPYRE_INDUCTOR_LOG_LEVEL": "ERROR"}, "inductor", "ERROR", "legacy:SPYRE_INDUCTOR_LOG_LEVEL"),
        ({"TORCH_SPYRE_DEBUG": "1", "SPYRE_LOGS": "runtime:ERROR"}, "runtime", "ERROR", "SPYRE_LOGS"),
    ],
)  # fmt: skip
def test_variables(environment, component, level, source):
    log = load(**environment)

    assert (log.get_log_level(component).name, log.get_config_source(component)) == (level, source)


def test_a_bad_word_in_the_environment_is_reported_and_ignored(capsys):
    log = load(SPYRE_LOGS="runtime:loud,engine:DEBUG,device:INFO")

    assert log.get_log_level("runtime") is log.LogLevel.WARNING
    assert log.get_log_level("device") is log.LogLevel.INFO
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("SPYRE_LOGS: ignored 'runtime:loud': log level 'loud' is none of")
    assert lines[1].startswith("SPYRE_LOGS: ignored 'engine:DEBUG': there is no component 'engine'")


def test_lines_in_a_file(tmp_path):
    file = tmp_path / "spyre.log"
    log = load(SPYRE_LOG_FILE=str(file))
    assert log.get_output_config() == {"log_file": str(file), "log_file_source": "legacy:SPYRE_LOG_FILE"}

    log.get_logger("spyre.inductor.x").warning("a stick is %d bytes", 128)
    log.get_logger("runtime").debug("not asked for")
    log.enable("runtime")
    log.get_logger("runtime").debug("asked for")
    log.disable()
    log.get_logger("runtime").critical("not any more")

    assert file.read_text().splitlines() == [
        "[WARNING] [spyre.inductor.x] a stick is 128 bytes",
        "[DEBUG] [spyre.runtime] asked for",
    ]


def test_a_file_that_is_set_later(tmp_path, capsys):
    log = load(SPYRE_LOGS="device:INFO")

    log.get_logger("device").info("to the standard error stream")
    log.set_log_file(tmp_path / "later.log")
    log.get_logger("device").info("to the file")
    log.set_log_file(None)
    log.get_logger("device").info("and back")

    assert capsys.readouterr().err == "[INFO] [spyre.device] to the standard error stream\n[INFO] [spyre.device] and back\n"
    assert (tmp_path / "later.log").read_text() == "[INFO] [spyre.device] to the file\n"
    assert log.get_output_config()["log_file_source"] == "programmatic"


def test_numbers_for_other_languages(tmp_path):
    log = load(SPYRE_LOGS="execution:ERROR")

    config = log.get_config_for_cpp()
    assert config["spyre.execution"] == 40 and type(config["spyre.execution"]) is int
    assert config["spyre.runtime"] == 30
    assert config["log_file"] == ""


def test_unknown_components_are_refused():
    log = load()

    with pytest.raises(ValueError, match="there is no component 'engine': spyre.inductor, "):
        log.set_log_level("engine", "DEBUG")


def test_the_start_of_the_runtime_is_logged():
    code = "import torch; torch.spyre.set_device(0); torch.ones(2, device='spyre')"
    environment = {**os.environ, "TORCH_SPYRE_DEBUG": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "[DEBUG] [spyre.runtime] started: 1 devices" in run.stderr
    assert "[DEBUG] [spyre.device] selected device 0" in run.stderr


# What the compiled part tells.

ADD = "import torch; x = torch.ones(3, 3, device='spyre'); y = x + x; y.cpu()"


def test_the_stack_tells_what_it_does(python):
    lines = python(ADD, TORCH_SPYRE_DEBUG="1").stderr
    for line in (
        "[DEBUG] [spyre.runtime] a card is opened: software, engines: 1",
        "[DEBUG] [spyre.memory] region 0 is acquired: ",
        '[DEBUG] [spyre.compiler] the plan of "aten_add" ',
        '[DEBUG] [spyre.execution] plan "aten_add" is loaded on device 0: 2 binaries',
        '[DEBUG] [spyre.execution] launch "aten_add" on stream 0 with float32[',
    ):
        assert line in lines, lines
    assert python(ADD).stderr == ""


def test_each_component_has_its_own_level(python):
    lines = python(ADD, SPYRE_LOGS="execution:DEBUG").stderr.splitlines()
    assert lines and all(line.startswith("[DEBUG] [spyre.execution] ") for line in lines), lines
    assert python(ADD, SPYRE_LOGS="execution:INFO,memory:WARNING").stderr == ""


def test_levels_change_while_a_program_runs(python):
    code = f"""
        {ADD}
        from torch_spyre import logging_config
        logging_config.enable("execution")
        y = x * x
        y.cpu()
        logging_config.disable()
        y = x / x
        y.cpu()
    """
    lines = python(code).stderr
    assert '"aten_mul"' in lines and '"aten_div"' not in lines and '"aten_add"' not in lines, lines


def test_a_fault_is_logged_with_its_stream_and_block(python):
    code = "import torch; torch.ones(3, device='spyre')[torch.tensor([7], device='spyre')].cpu()"
    run = python(code, check=False, SPYRE_LOGS="runtime")
    assert "[DEBUG] [spyre.runtime] stream 0 fails from block " in run.stderr, run.stderr


def test_a_handler_may_use_the_device(python):
    """Lines are handed over by a thread of their own, with no lock of the runtime's held."""
    code = """
        import logging, time, torch
        from torch_spyre import logging_config
        class Adds(logging.Handler):
            total = 0
            def emit(self, record):
                self.setLevel(100)  # its own launches are logged, too
                Adds.total += (torch.ones(4, device="spyre") + 1).sum().item()
                self.setLevel(0)
        x = torch.ones(3, device="spyre")
        logging_config.enable("execution")
        logging.getLogger("spyre.execution").addHandler(Adds())
        for _ in range(20):
            x = x + 1
        while Adds.total < 8:
            time.sleep(0.01)
        logging_config.disable()
        print(Adds.total >= 8, x.sum().item())
    """
    assert python(code).stdout.split() == ["True", "63.0"]


def test_a_forked_child_ends(python):
    code = """
        import os, sys, torch
        from torch_spyre import logging_config
        logging_config.enable()
        child = os.fork()
        if child == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.ones(2, device="spyre").sum().item())
    """
    assert python(code).stdout.split() == ["3", "2.0"]
