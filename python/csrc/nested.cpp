// Nested tensors that are rows of one buffer (torch.strided): PyTorch's kernels work on the buffer with other ops.
#include "borrowed.h"
#include "spyre.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_nested_compute_contiguous_strides_offsets_native.h>
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_nested_tensor_from_mask_left_aligned_native.h>
#include <ATen/ops/_nested_tensor_from_mask_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include <cmath>

namespace spyre {
namespace {

using at::IntArrayRef;
using at::Tensor;
using at::native::get_nested_tensor_impl;
using at::native::NestedTensorImpl;

Tensor wrap(Tensor buffer, const Tensor& sizes) {
  return at::detail::make_tensor<NestedTensorImpl>(std::move(buffer), sizes);
}

// A nested tensor's elements as rows of this shape, which all its parts end in.
Tensor rows(const Tensor& nested, IntArrayRef shape) {
  const auto* impl = get_nested_tensor_impl(nested);
  const auto count = static_cast<int64_t>(shape.size());
  for (int64_t dim = 0; dim < count; ++dim) {
    const auto size = impl->opt_size(impl->dim() - count + dim);
    TORCH_CHECK(size.has_value(), "normalized_shape extends into irregular dimensions for the nested tensor");
    TORCH_CHECK(*size == shape[dim], "The shape at dimension ", dim, "of normalized_shape doesn't match the input");
  }
  std::vector<int64_t> size{-1};
  size.insert(size.end(), shape.begin(), shape.end());
  return impl->get_buffer().view(size);
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, IntArrayRef shape,
                                              const std::optional<Tensor>& weight,
                                              const std::optional<Tensor>& bias, double eps) {
  TORCH_CHECK(weight.has_value() && bias.has_value(), "NestedTensor layer_norm requires weight and bias");
  TORCH_CHECK(!weight->is_nested(), "NestedTensor weight not supported for layer_norm");
  TORCH_CHECK(!bias->is_nested(), "NestedTensor bias not supported for layer_norm");
  const auto [result, mean, rstd] = at::native_layer_norm(rows(input, shape), shape, weight, bias, eps);
  return {wrap(result.reshape({-1}), get_nested_tensor_impl(input)->get_nested_sizes()), mean.reshape({-1}),
          rstd.reshape({-1})};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& input, IntArrayRef shape,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const std::optional<Tensor>& weight,
                                                       const std::optional<Tensor>& bias,
                                                       std::array<bool, 3> mask) {
  std::vector<int64_t> stats{-1};
  stats.resize(shape.size() + 1, 1);
  auto [to_input, to_weight, to_bias] =
      at::native_layer_norm_backward(rows(grad, shape), rows(input, shape), shape, mean.view(stats),
                                     rstd.view(stats), weight, bias, mask);
  if (mask[0]) {
    to_input = wrap(to_input.reshape({-1}), get_nested_tensor_impl(input)->get_nested_sizes());
  }
  return {to_input, to_weight, to_bias};
}

// Queries, keys and values of all heads: biased, and queries scaled.
std::tuple<Tensor, Tensor, Tensor> transform_bias_rescale_qkv(const Tensor& qkv, const Tensor& bias, int64_t heads) {
  const Tensor padded = qkv.is_nested() ? qkv.to_padded_tensor(0) : qkv;
  const int64_t width = padded.size(2) / 3;
  TORCH_CHECK(padded.size(2) % 3 == 0 && width % heads == 0, "3 x ", heads, " heads do not share a width of ",
              padded.size(2));
  const Tensor biased = (padded + bias).view({padded.size(0), padded.size(1), 3, heads, width / heads});
  const Tensor parts = biased.permute({2, 0, 3, 1, 4}).contiguous();
  parts.select(0, 0).mul_(1.0 / std::sqrt(static_cast<double>(width / heads)));
  return {parts.select(0, 0), parts.select(0, 1), parts.select(0, 2)};
}

// The buffer of a nested tensor whose parts are these.
Tensor joined(const std::vector<Tensor>& parts) {
  std::vector<Tensor> pieces;
  for (const Tensor& part : parts) {
    pieces.push_back(part.reshape({-1}));
  }
  return at::cat(pieces);
}

Tensor sum_dim(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(dims.has_value() && dims->size() == 1,
              "NestedTensor only allows reduction of a single dimension for now.");
  const int64_t dim = at::maybe_wrap_dim((*dims)[0], self.dim());
  TORCH_CHECK(dim == self.dim() - 1, "NestedTensor can only be reduced across the last dimension for now got dimension ",
              dim, " instead.");
  TORCH_CHECK(keepdim, "NestedTensor always requires keepdim=True for now.");
  TORCH_CHECK(!dtype.has_value(), "NestedTensor does not support dtype argument for now.");
  auto parts = self.unbind();
  if (parts.empty()) {
    return self;
  }
  for (Tensor& part : parts) {
    part = part.sum(-1, true);
  }
  const Tensor sizes = get_nested_tensor_impl(self)->get_nested_sizes().clone();
  sizes.select(1, -1).fill_(1);
  return wrap(joined(parts), sizes);
}

Tensor sum_backward(const Tensor& grad, const Tensor& self, at::OptionalIntArrayRef, bool) {
  const Tensor& sizes = get_nested_tensor_impl(self)->get_nested_sizes();
  auto grads = grad.unbind();
  if (grads.empty()) {
    return self;
  }
  const auto* lengths = sizes.const_data_ptr<int64_t>() + sizes.size(1) - 1;
  for (size_t at = 0; at < grads.size(); ++at) {
    std::vector<int64_t> size(grads[at].sizes().begin(), grads[at].sizes().end());
    size.back() = lengths[static_cast<int64_t>(at) * sizes.size(1)];
    grads[at] = grads[at].expand(size);
  }
  return wrap(joined(grads), sizes);
}

bool is_pinned(const Tensor&, std::optional<c10::Device>) {
  return false;
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  borrow<c10::DispatchKey::NestedTensorCPU>(m, SpyreFlag::BorrowsNested);
  m.impl("native_layer_norm", TORCH_FN(layer_norm));
  m.impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
  m.impl("_transform_bias_rescale_qkv", TORCH_FN(transform_bias_rescale_qkv));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dim));
  m.impl("_nested_sum_backward", TORCH_FN(sum_backward));
  m.impl("is_pinned", TORCH_FN(is_pinned));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_transform_bias_rescale_qkv", TORCH_FN(transform_bias_rescale_qkv));
  m.impl("_nested_tensor_from_mask", TORCH_FN(at::native::NestedTensor_nested_tensor_from_mask));
  m.impl("_nested_tensor_from_mask_left_aligned",
         TORCH_FN(at::native::NestedTensor_nested_tensor_from_mask_left_aligned));
  m.impl("_nested_from_padded", TORCH_FN(at::native::nested_from_padded_generic));
  m.impl("_nested_compute_contiguous_strides_offsets",
         TORCH_FN(at::native::_nested_compute_contiguous_strides_offsets));
}

} // namespace
} // namespace spyre
