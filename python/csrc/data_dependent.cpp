// Ops whose results are as long as their elements say: they are counted on the card, and the count is
// all that is read back.
#include "native.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/one_hot_native.h>
#include <torch/library.h>

namespace spyre {
namespace {

using at::Tensor;

// A tensor's elements in a row.
Tensor row(const Tensor& tensor) {
  return tensor.contiguous().view({-1});
}

int64_t count(const Tensor& flags) {
  return flags.numel() == 0 ? 0 : flags.sum().item<int64_t>();
}

// What kernels do not have, such as complex numbers, goes where all other ops without a kernel go.
Tensor without_kernel(const char* name, std::initializer_list<c10::IValue> arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  std::vector<c10::IValue> stack(arguments);
  fallback(op, &stack);
  return stack.back().toTensor();
}

Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  static const int32_t op = op_named("spyre::nonzero");
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  TORCH_CHECK(out.device() == self.device(), "nonzero: expected self and out on the same device, but got out on ",
              out.device(), " and self on ", self.device());
  // Numbers that kernels do not have, such as complex ones, are compared first.
  const Tensor flags = row(self.scalar_type() == at::kBool ? self : self.ne(0));
  const int64_t found = count(flags);
  // The places along each dim lie side by side, as on the CPU.
  if (at::native::resize_output(out, {found, self.dim()})) {
    out.as_strided_({found, self.dim()}, {1, found});
  }
  if (found > 0 && self.dim() > 0) {
    const auto made = call_native(op, {flags, self.sizes().vec(), out}, {2});
    TORCH_INTERNAL_ASSERT(made.has_value(), "there is no kernel for the places of truth values");
  }
  return out;
}

Tensor nonzero(const Tensor& self) {
  Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return nonzero_out(self, out);
}

// Class indices out of range raise at once, as PyTorch has it for devices without a check of their own.
Tensor one_hot(const Tensor& self, int64_t classes) {
  if (self.scalar_type() == at::kLong && self.numel() > 0) {
    const auto [least, largest] = self.aminmax();
    TORCH_CHECK(least.item<int64_t>() >= 0, "Class values must be non-negative.");
    TORCH_CHECK(classes <= 0 || largest.item<int64_t>() < classes, "Class values must be smaller than num_classes.");
  }
  return at::native::one_hot(self, classes);
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  static const int32_t op = op_named("spyre::masked_select");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const auto [all_mask, all_self] = at::expand_outplace(mask, self);
  const Tensor flags = row(*all_mask);
  const int64_t found = count(flags);
  at::native::resize_output(out, {found});
  if (found > 0) {
    const auto made = call_native(op, {row(*all_self), flags, out}, {2});
    if (!made.has_value()) {
      out.copy_(without_kernel("aten::masked_select", {self, mask}));
    }
  }
  return out;
}

Tensor masked_select(const Tensor& self, const Tensor& mask) {
  Tensor out = at::empty({0}, self.options());
  return masked_select_out(self, mask, out);
}

Tensor& masked_scatter_(Tensor& self, const Tensor& mask, const Tensor& source) {
  static const int32_t op = op_named("spyre::masked_scatter");
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(),
              " and ", source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  const auto all_mask = at::expand_inplace(self, mask, "masked_scatter_");
  const Tensor flags = row(*all_mask);
  const int64_t found = count(flags);
  TORCH_CHECK(found <= source.numel(), "Number of elements of source < number of ones in mask");
  if (found > 0) {
    Tensor target = row(self);
    const auto made = call_native(op, {target, flags, row(source)}, {0});
    if (!made.has_value()) {
      without_kernel("aten::masked_scatter_", {self, mask, source});
    } else if (!self.is_contiguous()) {
      self.copy_(target.view(self.sizes()));
    }
  }
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(nonzero));
  m.impl("one_hot", TORCH_FN(one_hot));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("masked_select", TORCH_FN(masked_select));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
  m.impl("masked_scatter_", TORCH_FN(masked_scatter_));
}

} // namespace
} // namespace spyre
