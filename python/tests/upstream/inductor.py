"""Runs PyTorch's own tests of Inductor on the device, and counts them.

`python -m upstream.inductor --torch-root pytorch [--dynamic] [--jobs 2]` (from python/tests) takes a PyTorch tree, or
the part of it that has `test/inductor/test_torchinductor.py`. Tests that read the text of Triton's or C++ kernels, that
count kernels, or that ask for what only CUDA or a newer PyTorch has say nothing about this device: they are listed with
the reason, and not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

BARS = {False: 95.0, True: 92.0}
"""The least percentage of tests that pass, with static and with dynamic shapes."""

NOT_COUNTED = {
    "counts kernels": """buffer_batch_norm buffer_copied_in_graph_with_different_shapes dtypeview_fusion mm_views
        nonzero_static_stride randint_kernel_count require_stride_expanded slice_scatter_reinplace""",
    "reads the text of Triton's or C++ kernels": """allow_reuse_active_if_under_peak conv_inference_heuristics
        deterministic_codegen_with_suffix dropout2 dropout3 index_propagation_abs index_propagation_floordiv
        index_propagation_remainder inner_reduction_detection neg_index""",
    "asks for what only CUDA has": "cudnn_rnn functionalize_rng_wrappers philox_rand",
    "asks for an ahead-of-time package": "aoti_eager_with_persistent_cache",
    "imports what the released wheel does not have": "lite_triton_kernel_wrapper_functional triton_kernel_bool_param",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-root", default=os.environ.get("SPYRE_TORCH_ROOT"))
    parser.add_argument("--dynamic", action="store_true", help="with dynamic shapes")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--only", help="pytest's -k")
    options = parser.parse_args()
    if not options.torch_root or not (Path(options.torch_root) / "test/inductor/test_torchinductor.py").exists():
        print("not measured: there is no PyTorch tree; give --torch-root")
        return 0
    outcomes = run(options)
    failed = sorted(name for name, outcome in outcomes.items() if outcome == "failed")
    reasons = {name: reason for reason, names in NOT_COUNTED.items() for name in names.split()}
    left_out = [name for name in failed if plain(name) in reasons]
    counted = [name for name in failed if plain(name) not in reasons]
    for name in counted:
        print(f"failed: {name}")
    for name in left_out:
        print(f"not counted: {name}: {reasons[plain(name)]}")
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    share = 100 * passed / max(passed + len(counted), 1)
    skipped = sum(outcome == "skipped" for outcome in outcomes.values())
    print(f"{passed} passed, {len(counted)} failed, {len(left_out)} not counted, {skipped} skipped: {share:.2f} %")
    return 0 if share >= BARS[options.dynamic] else 1


def plain(name: str) -> str:
    """The name that a test has in the template."""
    return re.sub(r"^test_|(_dynamic_shapes)?_spyre$", "", name)


def run(options: argparse.Namespace) -> dict[str, str]:
    """The outcome of each test."""
    environment = {
        **os.environ,
        "SPYRE_TORCH_ROOT": str(Path(options.torch_root).resolve()),
        "SPYRE_DYNAMIC": str(int(options.dynamic)),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TORCH_WARM_POOL": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-c", os.devnull, "-q"]
        command += ["--tb=no", f"--junitxml={report}", "-n", str(options.jobs), "--rootdir", folder]
        command += ["-k", options.only] if options.only else []
        cases = Path(__file__).with_name("inductor_cases.py")
        subprocess.run([*command, str(cases)], env=environment, cwd=folder, check=False)
        return {case.get("name", ""): outcome(case) for case in ElementTree.parse(report).iter("testcase")}


def outcome(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


if __name__ == "__main__":
    sys.exit(main())
