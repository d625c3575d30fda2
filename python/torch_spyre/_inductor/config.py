"""Settings of compiled graphs: read and set as those of Inductor, with `config.patch`.

`max_tile` is the most elements of each dim that a program is compiled for; larger tensors are launched tile by tile.
The others are the settings of the plug-in for real cards. They are accepted, so that its scripts run. What they choose
between is decided by the compiler here.
"""

import os
import sys

from torch.utils._config_module import install_config_module

max_tile: int | None = None

lx_planning: bool = os.environ.get("LX_PLANNING", "1") == "1"
co_optimizing_lx_planning: bool = os.environ.get("CO_OPTIMIZING_LX_PLANNING", "0") == "1"
lx_boundary_clones: bool = os.environ.get("LX_BOUNDARY_CLONES", "0") == "1"
allow_all_ops_in_lx_planning: bool = False
dxp_lx_frac_avail: float = float(os.environ.get("DXP_LX_FRAC_AVAIL", "0.2"))
hbm_planning: bool = os.environ.get("SPYRE_INDUCTOR_MEMORY_PLAN", "1") == "1"
hbm_pool_planning: bool = True
chunk_large_tensors: bool = os.environ.get("CHUNK_LARGE_TENSORS", "0") == "1"
global_stick_optimizer: bool = os.environ.get("GLOBAL_STICK_OPTIMIZER", "1") == "1"
sencores: int = int(os.environ.get("SENCORES", "32"))
core_id_k_fast_emission: bool = os.environ.get("SPYRE_CORE_ID_K_FAST_EMISSION", "1") == "1"
ignore_work_division_hints: bool = os.environ.get("SPYRE_INDUCTOR_IGNORE_HINTS", "0") == "1"
max_buckets: int = int(os.environ.get("MAX_BUCKETS", "32"))
min_default_granularity: int = int(os.environ.get("MIN_DEFAULT_GRANULARITY", "4"))
bundle_symbolic_args: bool = True
unroll_loops: bool = True
layout_solver: str = "greedy"

install_config_module(sys.modules[__name__])
