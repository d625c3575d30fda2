// Kinds of tensors beside dense ones: where their calls go that have no kernel.
#include "fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

namespace spyre {
namespace {

void refuse_quantised(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", op.schema().operator_name(),
                              "' was asked for a quantised tensor (such as torch.qint8) on spyre, which has none: "
                              "dequantize() it on the CPU first, or keep int8 or float8 tensors with scales beside "
                              "them");
}

// All that make one: there is none that another op could be given.
TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  for (const char* op : {"empty.memory_format", "empty_strided", "empty_quantized", "_empty_affine_quantized",
                         "_empty_per_channel_affine_quantized"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&refuse_quantised>());
  }
}

// What PyTorch has no kernel for on any device.
void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", op.schema().operator_name(),
                              "' has no implementation for nested tensors of the layout torch.strided on spyre: give "
                              "nested_tensor layout=torch.jagged, take the parts by unbind(), or pad them by "
                              "torch.nested.to_padded_tensor");
}

// The dispatcher goes through all of its operators for each: 5 ms.
template <c10::BoxedKernel::BoxedKernelFunction* fallback>
void register_fallback(c10::DispatchKey key) {
  static auto& library = *new std::vector<std::unique_ptr<torch::Library>>; // a library takes its kernels along
  library.push_back(std::make_unique<torch::Library>(torch::Library::IMPL, "_", key, __FILE__, __LINE__));
  library.back()->fallback(torch::CppFunction::makeFromBoxedFunction<fallback>());
}

} // namespace
} // namespace spyre

// Registers them when the first card is opened, not when PyTorch is imported: before, there is no such tensor.
extern "C" void spyre_register_kinds() {
  static std::once_flag once;
  try {
    std::call_once(once, [] {
      spyre::register_fallback<&spyre::sparse_fallback>(c10::DispatchKey::SparsePrivateUse1);
      spyre::register_fallback<&spyre::sparse_fallback>(c10::DispatchKey::SparseCsrPrivateUse1);
      spyre::register_fallback<&spyre::refuse_nested>(c10::DispatchKey::NestedTensorPrivateUse1);
    });
  } catch (...) {
    // Without them PyTorch refuses such calls in its own words.
  }
}
