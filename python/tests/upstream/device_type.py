"""A small device-type test of our own, in the form of PyTorch's: what the driver runs everywhere."""

import torch
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import (
    dtypes,
    instantiate_device_type_tests,
    onlyNativeDeviceTypes,
    ops,
)
from torch.testing._internal.common_dtype import all_types_and_complex_and, floating_types
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, run_tests

EVERY = all_types_and_complex_and(torch.half, torch.bfloat16, torch.bool)
FEW = [op for op in op_db if op.name in ("add", "cat", "index_select", "sum", "softmax", "gather")]


class TestDevice(TestCase):
    """Basic properties of a device, without which nothing else is worth measuring."""

    @dtypes(*EVERY)
    def test_a_tensor_comes_back_as_it_went(self, device, dtype):
        host = make_tensor((5, 67), device="cpu", dtype=dtype)
        self.assertEqual(host.to(device).cpu(), host)

    @dtypes(*EVERY)
    def test_views_share_their_storage(self, device, dtype):
        base = make_tensor((6, 70), device=device, dtype=dtype)
        view = base.t()[3:40:2, 1:]
        self.assertTrue(view._is_view())
        self.assertTrue(view._base is base)
        view.fill_(1)
        self.assertEqual(base.cpu().t()[3:40:2, 1:], torch.ones(19, 5, dtype=dtype))

    @dtypes(*floating_types())
    def test_gradients_stay_on_the_device(self, device, dtype):
        x = make_tensor((3, 4), device=device, dtype=dtype, requires_grad=True)
        (x * x).sum().backward()
        self.assertEqual(x.grad.device.type, torch.device(device).type)
        self.assertEqual(x.grad.cpu(), 2 * x.detach().cpu())

    @onlyNativeDeviceTypes
    def test_devices_do_not_mix(self, device):
        x = torch.ones(3, device=device)
        with self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device"):
            torch.add(x, torch.ones(3))

    def test_an_index_past_the_end_is_an_index_error(self, device):
        with self.assertRaises(IndexError):
            torch.ones(3, device=device)[3]

    @ops(FEW, allowed_dtypes=(torch.float32, torch.int64))
    def test_operators_agree_with_the_cpu(self, device, dtype, op):
        for sample in op.sample_inputs("cpu", dtype):
            moved = sample.transform(lambda t: t.to(device) if isinstance(t, torch.Tensor) else t)
            expected = op(sample.input, *sample.args, **sample.kwargs)
            given = op(moved.input, *moved.args, **moved.kwargs)
            self.assertEqual(given, expected, exact_device=False)


instantiate_device_type_tests(TestDevice, globals())

if __name__ == "__main__":
    run_tests()
