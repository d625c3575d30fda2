"""Reports of compiled graphs: kernels, calls of other operators, buffers, and times on a real card.

- :mod:`graph_report` has the reports, and their text;
- :mod:`recorder` notes kernels while Inductor writes a graph, and makes its report;
- :mod:`extern_reasons` says why an operator is no loop;
- :mod:`lifetimes` has the buffers of a graph, and the calls between which they live;
- :mod:`named_kernels` names the dims of kernels, and refuses hints that a card could not follow;
- :mod:`timing` runs a graph call by call, under a trace of each;
- :mod:`debug_files` writes reports beside Inductor's files (`TORCH_COMPILE_DEBUG=1`).
"""
