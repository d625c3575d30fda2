// Kinds of tensors that the device does not have: every op says so, and what to do instead.
#include "spyre.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace spyre {
namespace {

void refuse_quantised(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", op.schema().operator_name(),
                              "' was asked for a quantised tensor (such as torch.qint8) on spyre, which has none: "
                              "dequantize() it on the CPU first, or keep int8 or float8 tensors with scales beside "
                              "them");
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantised>());
}

} // namespace
} // namespace spyre
