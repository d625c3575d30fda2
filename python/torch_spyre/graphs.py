"""Graphs: launches that are captured once and replayed often, each time as one.

    x = torch.zeros(64, device="spyre")
    g = torch.spyre.SpyreGraph()
    with torch.spyre.graph(g):
        y = model(x)          # noted, not carried out
    x.copy_(data)
    g.replay()                # y has the results for the data

A graph reads and writes the memory that it was captured with: new inputs are copied into the old ones, and results are
in the tensors that the capture made. It keeps that memory, also of tensors that are gone. What a graph cannot repeat is
refused during a capture: copies between host and device, waits, events, random numbers.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _pytree as pytree

from . import _C, streams
from .kernels import call_site

__all__ = [
    "SpyreGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

PoolHandle = tuple[int, int]

_numbers = itertools.count(1)
_pools: weakref.WeakValueDictionary[PoolHandle, _Pool] = weakref.WeakValueDictionary()


class _Pool:
    """Memory of graphs, on each device."""

    def __init__(self) -> None:
        self._memories: dict[int, _C.RawGraphMemory] = {}

    def on(self, device: int) -> _C.RawGraphMemory:
        if device not in self._memories:
            self._memories[device] = _C.RawGraphMemory(device)
        return self._memories[device]


class SpyreGraph:
    """Launches of a stream, captured to be replayed. :class:`graph` is the easy way to capture.

    Args:
        keep_graph: taken for the sake of other devices' code; there is no second form to instantiate later.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._handle = graph_pool_handle()
        self._pool: _Pool | None = None
        self._captured_on: streams.Stream | None = None
        self._device: int | None = None
        self._launches: _C.RawGraph | None = None

    def capture_begin(self, pool: PoolHandle | None = None, capture_error_mode: str = "global") -> None:
        """Has launches on the current stream noted from now on, and not carried out.

        Args:
            pool: memory to share with other graphs, from :func:`graph_pool_handle` or :meth:`pool`. They are replayed
                in the order of their captures.
            capture_error_mode: taken for the sake of other devices' code: other streams and threads are not restricted.
        """
        if self._captured_on is not None or self._launches is not None:
            raise RuntimeError("the graph has a capture already: reset() it, or make another SpyreGraph")
        stream = streams.current_stream()
        handle = self._handle if pool is None else tuple(pool)
        memory = _pools.setdefault(handle, _Pool())
        _C.RawGraph.begin(stream.device_index, stream.stream_id, memory.on(stream.device_index))
        self._handle, self._pool, self._captured_on = handle, memory, stream
        self._device = stream.device_index
        self._hook = register_optimizer_step_pre_hook(_check_optimizer)
        # A graph that is dropped meanwhile ends its capture.
        self._end = weakref.finalize(self, _give_up, stream.device_index, stream.stream_id, self._hook)
        self._end.atexit = False

    def capture_end(self) -> None:
        """Ends the capture on the stream that it was begun on."""
        stream, self._captured_on = self._captured_on, None
        if stream is None:
            raise RuntimeError("the graph captures nothing: call capture_begin first")
        self._end.detach()
        self._hook.remove()
        self._launches = _C.RawGraph.end(stream.device_index, stream.stream_id)

    def instantiate(self) -> None:
        """Does nothing: a graph can be replayed when its capture has ended."""
        self._captured()

    def replay(self) -> None:
        """Queues all that was captured on its device's current stream, behind the last replay."""
        self._captured().replay(call_site(streams.current_stream(self._device), depth=2))

    def reset(self) -> None:
        """Gives the capture up. Its memory is freed with the last tensor and the last graph that use it."""
        if self._captured_on is not None:
            self.capture_end()
        self._launches = self._pool = None
        self._handle = graph_pool_handle()

    def pool(self) -> PoolHandle:
        """A name for the graph's memory, to share it with the captures of other graphs."""
        return self._handle

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Number of control blocks that the first replay queues; later ones leave out corrections that hold."""
        return len(self._captured())

    def _captured(self) -> _C.RawGraph:
        if self._launches is None:
            raise RuntimeError("nothing was captured: use `with torch.spyre.graph(g):`, or capture_begin and capture_end")
        return self._launches


def _check_optimizer(optimizer: torch.optim.Optimizer, *args: Any) -> None:
    counts_on_host = any(group.get("capturable") is False for group in optimizer.param_groups)
    if counts_on_host and is_current_stream_capturing():
        raise RuntimeError(
            f"{type(optimizer).__name__} counts its steps on the host, and so would repeat one step in each replay of the "
            "graph: make it with capturable=True"
        )


def _give_up(device: int, stream: int, hook: Any) -> None:
    hook.remove()
    with contextlib.suppress(RuntimeError):
        _C.RawGraph.end(device, stream)


class graph:  # noqa: N801  the name that other devices have
    """Captures what its block launches into a graph.

    Args:
        spyre_graph: the graph.
        pool: memory to share with other graphs.
        stream: the stream to capture on; by default one that is there for captures.
        capture_error_mode: see :meth:`SpyreGraph.capture_begin`.
    """

    _streams: dict[int, streams.Stream] = {}

    def __init__(
        self,
        spyre_graph: SpyreGraph,
        pool: PoolHandle | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        self._graph = spyre_graph
        self._pool = pool
        self._mode = capture_error_mode
        self._context = streams.StreamContext(self._default_stream() if stream is None else stream)

    def __enter__(self) -> None:
        torch.spyre.synchronize()  # what is queued is done, as the capture's stream does not wait for it
        gc.collect()
        torch.clear_autocast_cache()  # of results that the capture would only note, and of those from before
        self._context.__enter__()
        try:
            self._graph.capture_begin(self._pool, self._mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type[BaseException] | None, *args: Any) -> None:
        try:
            self._graph.capture_end()
        finally:
            self._context.__exit__(kind, *args)
            torch.clear_autocast_cache()
        if kind is not None:
            self._graph.reset()

    @classmethod
    def _default_stream(cls) -> streams.Stream:
        device = torch.spyre.current_device()
        if device not in cls._streams:
            cls._streams[device] = streams.Stream(device)
        known = cls._streams[device]
        # Another thread may be capturing.
        return streams.Stream(device) if _C._is_capturing(device, known.stream_id) else known


def is_current_stream_capturing() -> bool:
    """Returns True if what is launched on the current stream is captured into a graph."""
    if not torch.spyre.is_initialized():
        return False
    stream = streams.current_stream()
    return _C._is_capturing(stream.device_index, stream.stream_id)


def graph_pool_handle() -> PoolHandle:
    """A name for memory that graphs share: the ``pool`` of their captures."""
    return (next(_numbers), 0)


def make_graphed_callables(
    callables: Callable | tuple[Callable, ...],
    sample_args: tuple,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: PoolHandle | None = None,
) -> Callable | tuple[Callable, ...]:
    """Functions or modules whose forward and backward passes are graphs.

    Each call copies its arguments into the samples and replays a graph, so arguments have the shapes of the samples. A
    module is changed in place: its forward is the graph as long as it is in the mode (train or eval) of the capture.

    Args:
        callables: a function or module, or several that run one after the other.
        sample_args: its arguments, all tensors; for several callables a tuple of them for each.
        num_warmup_iters: how often they run before the capture.
        allow_unused_input: True if gradients of some arguments may not exist.
        pool: memory to share with other graphs.
    """
    is_one = not isinstance(callables, tuple)
    functions: Sequence[Callable] = (callables,) if is_one else callables
    samples = (sample_args,) if is_one else sample_args
    if len(functions) != len(samples):
        raise ValueError(f"{len(functions)} callables and sample_args for {len(samples)}: give each its own tuple")
    pool = graph_pool_handle() if pool is None else pool
    kept = _pools.setdefault(pool, _Pool())  # until a capture keeps it
    passes = [_Passes(function, args, allow_unused_input) for function, args in zip(functions, samples)]
    with streams.stream(streams.Stream()):
        for made in passes:
            for _ in range(num_warmup_iters):
                made.run()
        torch.spyre.synchronize()
    for made in passes:
        made.capture_forward(pool)
    for made in reversed(passes):
        made.capture_backward(pool)
    del kept
    graphed = tuple(made.callable() for made in passes)
    return graphed[0] if is_one else graphed


class _Passes:
    """Forward and backward pass of a callable, as graphs."""

    def __init__(self, function: Callable, args: tuple, allows_unused: bool) -> None:
        self._function = function
        self._allows_unused = allows_unused
        if not isinstance(args, tuple):
            raise TypeError(f"sample_args have to be a tuple of tensors, not {type(args).__name__}")
        leaves, self._inputs_spec = pytree.tree_flatten(args)
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise TypeError("sample_args have to be tensors, as each call copies its own into them")
        self._args = args
        self._inputs = leaves
        is_module = isinstance(function, torch.nn.Module)
        self._parameters = [p for p in function.parameters() if p.requires_grad] if is_module else []
        self._wanted = [tensor for tensor in (*self._inputs, *self._parameters) if tensor.requires_grad]
        self._forward, self._backward = SpyreGraph(), None
        self._outputs: list[torch.Tensor] = []
        self._output_grads: list[torch.Tensor | None] = []
        self._input_grads: list[torch.Tensor | None] = []

    def run(self) -> None:
        outputs = pytree.tree_leaves(self._function(*self._args))
        given = [torch.zeros_like(output) if output.requires_grad else None for output in outputs]
        self._gradients(outputs, given)

    def capture_forward(self, pool: PoolHandle) -> None:
        with graph(self._forward, pool=pool):
            outputs = self._function(*self._args)
        self._outputs, self._outputs_spec = pytree.tree_flatten(outputs)
        if not all(isinstance(made, torch.Tensor) for made in self._outputs):
            raise TypeError("what a graphed callable returns has to be made of tensors")

    def capture_backward(self, pool: PoolHandle) -> None:
        self._output_grads = [torch.zeros_like(made) if made.requires_grad else None for made in self._outputs]
        if self._wanted and any(grad is not None for grad in self._output_grads):
            self._backward = SpyreGraph()
            with graph(self._backward, pool=pool):
                found = self._gradients(self._outputs, self._output_grads)
            grads = iter(found)
            each = (*self._inputs, *self._parameters)
            self._input_grads = [next(grads) if tensor.requires_grad else None for tensor in each]
        else:
            self._input_grads = [None] * (len(self._inputs) + len(self._parameters))
        self._outputs = [made.detach() for made in self._outputs]

    def callable(self) -> Callable:
        run = self._graphed()
        if not isinstance(self._function, torch.nn.Module):
            return run
        module, eager, mode = self._function, self._function.forward, self._function.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            if module.training != mode:
                return eager(*args, **kwargs)
            if kwargs:
                raise TypeError(f"the graph takes no keywords, and got {', '.join(kwargs)}: give arguments by position")
            return run(*args)

        module.forward = forward
        return module

    def _gradients(
        self, outputs: list[torch.Tensor], grads: list[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        made = [(output, grad) for output, grad in zip(outputs, grads) if grad is not None]
        if not made or not self._wanted:
            return []
        tensors, given = zip(*made)
        return list(torch.autograd.grad(tensors, self._wanted, given, allow_unused=self._allows_unused))

    def _graphed(self) -> Callable:
        passes = self

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(context: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
                for own, given in zip(passes._inputs, tensors):
                    _take(own.detach(), given)
                passes._forward.replay()
                kinds = [made for made, grad in zip(passes._outputs, passes._output_grads) if grad is None]
                context.mark_non_differentiable(*kinds)
                return tuple(made.detach() for made in passes._outputs)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(context: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
                for own, given in zip(passes._output_grads, grads):
                    if own is not None:
                        own.zero_() if given is None else _take(own, given)
                if passes._backward is not None:
                    passes._backward.replay()
                # Copies, as autograd keeps what it is given, and the next replay writes the graph's own.
                return tuple(grad if grad is None else grad.clone() for grad in passes._input_grads)

        def run(*args: Any) -> Any:
            leaves, spec = pytree.tree_flatten(args)
            if spec != passes._inputs_spec:
                raise TypeError(f"the graph was captured with arguments {passes._inputs_spec}, and got {spec}")
            outputs = Graphed.apply(*leaves, *passes._parameters)
            return pytree.tree_unflatten(outputs, passes._outputs_spec)

        return run


def _take(own: torch.Tensor, given: torch.Tensor) -> None:
    """Copies an argument into the graph's own tensor, if it is another."""
    kind = (given.shape, given.dtype, given.device)
    if kind != (own.shape, own.dtype, own.device):
        raise TypeError(
            f"the graph was captured with {own.dtype} {tuple(own.shape)} on {own.device}, and got {given.dtype} "
            f"{tuple(given.shape)} on {given.device}: make another for it"
        )
    if given.data_ptr() != own.data_ptr():
        own.copy_(given)
    elif given.stride() != own.stride():
        own.copy_(given.clone())
