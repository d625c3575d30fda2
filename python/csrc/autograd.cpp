// The end of a process: threads of the autograd engine are let finish what they clean up.
#include "spyre.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace {

// Does nothing, on the device's autograd thread.
struct Pass : torch::autograd::Function<Pass> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& tensor) {
    return tensor.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return grads;
  }
};

} // namespace

// After a backward pass the device's thread still drops what the pass held, which may take the
// interpreter's lock; if the interpreter ends meanwhile, so does the process, badly. A pass of our own
// waits for its turn on that thread, and holds nothing of Python.
extern "C" void spyre_flush_autograd(int32_t device) {
  try {
    const c10::Device place(spyre::kSpyre, static_cast<c10::DeviceIndex>(device));
    const c10::OptionalDeviceGuard guard(place);
    auto tensor = at::empty({1}, at::TensorOptions().device(place)).set_requires_grad(true);
    const auto grad = at::empty({1}, at::TensorOptions().device(place));
    torch::autograd::grad({Pass::apply(tensor)}, {tensor}, {grad});
  } catch (...) {
    // The process ends anyway.
  }
}
