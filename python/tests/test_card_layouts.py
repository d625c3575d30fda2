"""Under ``SPYRE_PROFILE=card`` tensors lie as a real card has them: what a reduction leaves of its sticks, what has
to be restickified, how layouts go from tensors to results, and what does not fit into a scratchpad."""

import children
import pytest
from conftest import needs_spyre

pytestmark = needs_spyre

PREAMBLE = """
import torch
import torch.nn.functional as F
from torch_spyre import _C

def sizes(tensor):
    return list(tensor.device_tensor_layout().device_size)

def sticks(tensor):
    return tensor.get_stick_dims()

def is_sparse(tensor):
    return tensor.device_tensor_layout().stride_map[-1] == -1

def turned(call, *expected):
    before = _C.traffic()["restickifies"]
    result = call()
    torch.spyre.synchronize()
    count = _C.traffic()["restickifies"] - before
    assert [count] == list(expected), f"{count} restickifies, not {expected}"
    return result

def notes():
    return [note for _, notes in _C.card_reports() for note in notes]

host = (torch.arange(128 * 256).reshape(128, 256) % 7).half()
x = host.to("spyre")
y = host.to("spyre", stick_dims=[0])
"""


def card(text, **settings):
    return children.script(PREAMBLE + text, SPYRE_PROFILE="card", **settings)


def test_a_reduction_along_the_sticks_leaves_one_element_in_each():
    card("""
sums = x.sum(1)
assert is_sparse(sums) and sizes(sums)[-2:] == [128, 64], sizes(sums)
assert torch.equal(sums.cpu(), host.sum(1))
most = x.amax(1, keepdim=True)
assert is_sparse(most) and torch.equal(most.cpu(), host.amax(1, keepdim=True))
where = x.argmax(1)
assert is_sparse(where) and torch.equal(where.cpu(), host.argmax(1))
assert x.sum().item() == host.sum().item()
    """)


def test_a_reduction_across_the_sticks_stays_dense():
    card("""
sums = x.sum(0)
assert sticks(sums) == [0] and not is_sparse(sums) and torch.equal(sums.cpu(), host.sum(0))
sums = y.sum(1)
assert not is_sparse(sums) and torch.equal(sums.cpu(), host.sum(1))
sums = y.sum(0)
assert is_sparse(sums) and torch.equal(sums.cpu(), host.sum(0))
    """)


def test_what_is_sparse_meets_rows_without_a_restickify():
    card("""
centred = turned(lambda: x - x.mean(1, keepdim=True), 0)
torch.testing.assert_close(centred.cpu(), host - host.mean(1, keepdim=True), rtol=1e-2, atol=1e-2)
both = turned(lambda: x + x.sum(1).unsqueeze(1), 0)
assert sticks(both) == [1] and torch.equal(both.cpu(), host + host.sum(1).unsqueeze(1))
sparse = x.sum(1)
again = turned(lambda: sparse * 2 + sparse, 0)
assert is_sparse(again)
torch.testing.assert_close(again.cpu(), host.sum(1) * 3, rtol=1e-2, atol=1)
scaled = turned(lambda: x * torch.tensor(2.0, dtype=torch.float16, device="spyre"), 0)
assert torch.equal(scaled.cpu(), host * 2)
    """)


def test_operands_with_other_sticks_are_restickified_and_that_is_reported():
    card("""
z = turned(lambda: x + y, 1)
assert sticks(z) == [1] and torch.equal(z.cpu(), host + host)
assert any("restickified" in note for note in notes()), notes()
z = turned(lambda: y + x, 1)
assert sticks(z) == [0] and torch.equal(z.cpu(), host + host)
column = torch.arange(128, dtype=torch.float16)
z = turned(lambda: x + column.to("spyre").unsqueeze(1), 1)
assert torch.equal(z.cpu(), host + column.unsqueeze(1))
dense = column.to("spyre")
z = turned(lambda: dense + x.sum(1), 1)
assert torch.equal(z.cpu(), column + host.sum(1))
    """)


def test_layouts_go_from_tensors_to_results():
    card("""
z = turned(lambda: F.relu(y * 2 - 1), 0)
assert sticks(z) == [0] and torch.equal(z.cpu(), F.relu(host * 2 - 1))
z = turned(lambda: y + y, 0)
assert sticks(z) == [0] and torch.equal(z.cpu(), host + host)
z = turned(lambda: x.t() + y.t(), 1)
assert torch.equal(z.cpu(), host.t() * 2)
bias = torch.arange(256).half()
z = turned(lambda: x + bias.to("spyre"), 0)
assert sticks(z) == [1] and torch.equal(z.cpu(), host + bias)
cube = (torch.arange(4 * 6 * 70).reshape(4, 6, 70) % 11).half()
for dim in range(3):
    z = turned(lambda: cube.to("spyre", stick_dims=[dim]).neg().exp(), 0)
    assert sticks(z) == [dim], (dim, sticks(z))
    torch.testing.assert_close(z.cpu(), cube.neg().exp(), rtol=4e-3, atol=1e-3)
    """)


def test_products_want_the_sticks_of_the_right_side_along_its_columns():
    card("""
w = (torch.arange(64 * 256).reshape(64, 256) % 5 - 2).half()
expected = F.linear(host.float(), w.float())
z = turned(lambda: F.linear(x, w.to("spyre")), 1)
assert sticks(z) == [1]
torch.testing.assert_close(z.cpu().float(), expected, rtol=4e-3, atol=1)
z = turned(lambda: F.linear(x, w.to("spyre", stick_dims=[0])), 0)
torch.testing.assert_close(z.cpu().float(), expected, rtol=4e-3, atol=1)
z = turned(lambda: x @ w.t().contiguous().to("spyre"), 0)
torch.testing.assert_close(z.cpu().float(), expected, rtol=4e-3, atol=1)
    """)


def test_tensors_that_are_there_keep_their_layout():
    card("""
z = x.clone()
turned(lambda: z.add_(y), 1)
assert sticks(z) == [1] and torch.equal(z.cpu(), host * 2)
z = y.restickify([0])
turned(lambda: torch.add(x, x, out=z), 0)
assert sticks(z) == [0] and torch.equal(z.cpu(), host * 2)
part = torch.zeros(128, 512, dtype=torch.float16, device="spyre")
torch.sum(x.view(128, 2, 128), 2, out=part[:, 3:5])
assert torch.equal(part.cpu()[:, 3:5], host.view(128, 2, 128).sum(2)) and part.cpu().count_nonzero() <= 256
    """)


def test_views_of_what_is_sparse_are_right():
    card("""
sums = x.view(8, 16, 256).sum(2)
expected = host.view(8, 16, 256).sum(2)
assert is_sparse(sums)
for view in (lambda t: t.t(), lambda t: t[2:5, ::3], lambda t: t.reshape(4, 32), lambda t: t[1], lambda t: t.flatten()[::5]):
    assert torch.equal(view(sums).cpu(), view(expected))
    assert torch.equal((view(sums) + 1).cpu(), view(expected) + 1)
assert torch.equal(sums.clone().cpu(), expected) and torch.equal(sums.softmax(1).argmax(1).cpu(), expected.argmax(1))
    """)


@pytest.mark.parametrize("place", ["other stream", "thread", "after a fault"])
def test_the_first_restickify_may_be_anywhere(place):
    lines = {
        "other stream": """
with torch.spyre.stream(torch.spyre.Stream()):
    torch.spyre.current_stream().wait_stream(torch.spyre.default_stream())
    work()
""",
        "thread": """
import threading
thread = threading.Thread(target=work)
thread.start(), thread.join()
""",
        "after a fault": """
try:
    x.index_select(0, torch.tensor([999], device="spyre")).cpu()
except (IndexError, RuntimeError):
    pass
work()
""",
    }[place]
    card(f"""
done = []
def work():
    z = x + y
    assert torch.equal(z.cpu(), host * 2) and torch.equal(x.sum(1).cpu(), host.sum(1))
    done.append(1)
{lines}
assert done
    """)


def test_what_a_scratchpad_does_not_hold_is_reported():
    card("""
x.softmax(1)
assert not any("scratchpad" in note for note in notes()), notes()
torch.zeros(1, 1 << 20, dtype=torch.float16, device="spyre").softmax(1)
assert any("scratchpad" in note for note in notes()), notes()
    """)


def test_a_restickify_stands_in_the_log_and_in_a_trace():
    card("""
import logging
lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logger = logging.getLogger("spyre.execution")
logger.addHandler(Lines())
from torch_spyre import logging_config
logging_config.set_log_level("spyre.execution", "INFO")
with torch.spyre.trace() as trace:
    x + y
    torch.spyre.synchronize()
_C._flush_logs()
assert any("restickified" in line for line in lines), lines
kinds = [str(operation) for operation in trace.operations]
assert len(kinds) >= 2, kinds
    """)


def test_the_open_profile_needs_none_of_it():
    children.script(PREAMBLE + """
z = turned(lambda: x + y, 0)
assert sticks(z) == [1] and not is_sparse(x.sum(1)) and torch.equal(z.cpu(), host + host)
    """, SPYRE_PROFILE="open")  # fmt: skip


def test_training_goes_on_as_before():
    card("""
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.LayerNorm(96), torch.nn.GELU(), torch.nn.Linear(96, 8))
inputs, targets = torch.randn(32, 64), torch.randint(0, 8, (32,))
def losses(device):
    import copy
    own = copy.deepcopy(model).to(device)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    found = []
    for _ in range(5):
        loss = F.cross_entropy(own(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
torch.testing.assert_close(losses("spyre"), losses("cpu"), rtol=2e-2, atol=2e-2)
    """)
