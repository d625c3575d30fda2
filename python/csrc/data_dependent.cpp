// Ops whose results are as long as their elements say: they are counted on the card, and the count is
// all that is read back.
#include "native.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
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

void check_made(const char* op, const std::optional<Results>& made, const Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(made.has_value(), op, " on spyre has no kernel for ", tensor.scalar_type());
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
  at::native::resize_output(out, {found, self.dim()});
  if (found > 0 && self.dim() > 0) {
    check_made("nonzero", call_native(op, {flags, self.sizes().vec(), out}, {2}), self);
  }
  return out;
}

Tensor nonzero(const Tensor& self) {
  Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return nonzero_out(self, out);
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  static const int32_t op = op_named("spyre::masked_select");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  const auto [all_mask, all_self] = at::expand_outplace(mask, self);
  const Tensor flags = row(*all_mask);
  const int64_t found = count(flags);
  at::native::resize_output(out, {found});
  if (found > 0) {
    check_made("masked_select", call_native(op, {row(*all_self), flags, out}, {2}), self);
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
    check_made("masked_scatter_", call_native(op, {target, flags, row(source)}, {0}), self);
    if (!self.is_contiguous()) {
      self.copy_(target.view(self.sizes()));
    }
  }
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(nonzero));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("masked_select", TORCH_FN(masked_select));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
  m.impl("masked_scatter_", TORCH_FN(masked_scatter_));
}

} // namespace
} // namespace spyre
