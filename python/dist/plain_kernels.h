// What threads are to have while they run kernels, or wait for other threads.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <optional>

#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

namespace spyreccl {

// Kernels run on the device's own terms: no gradients, no versions, no views to follow.
struct PlainKernels {
  at::NoGradGuard no_grad;
  at::AutoDispatchBelowADInplaceOrView below;
};

// Lets go of the interpreter's lock, if this thread holds it: a thread that is waited for may drop a tensor with an
// object of Python's, for which it takes the lock.
class Unlocked {
 public:
  Unlocked() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      released_.emplace();
    }
  }

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

} // namespace spyreccl
