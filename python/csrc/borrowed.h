// Kernels of PyTorch's own that are made of other ops, and so serve every device whose tensors they are given.
#pragma once

#include "operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace spyre {

// Runs the kernel that PyTorch has registered for another key, with the arguments as they are.
template <c10::DispatchKey key>
void borrowed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(key), stack);
}

// Registers such kernels for a library's own key: those of the ops that have a flag.
template <c10::DispatchKey key>
void borrow(torch::Library& library, SpyreFlag flag) {
  each_flagged(flag, [&](const char* op) {
    library.impl(op, torch::CppFunction::makeFromBoxedFunction<&borrowed<key>>());
  });
}

} // namespace spyre
