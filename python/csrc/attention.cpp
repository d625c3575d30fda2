// Attention: which calls the card's kernels take, and how their tensors are seen.
#include "native.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/SDPBackend.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cmath>

namespace spyre {
namespace {

using at::Tensor;

// Query heads in groups, each of which shares a head of keys and values.
Tensor grouped(const Tensor& tensor, int64_t heads) {
  return tensor.unflatten(1, {heads, tensor.size(1) / heads});
}

std::optional<Tensor> grouped_bias(const std::optional<Tensor>& bias, const Tensor& query, const Tensor& key) {
  if (!bias.has_value() || !bias->defined()) {
    return std::nullopt;
  }
  const auto all = bias->expand({query.size(0), query.size(1), query.size(2), key.size(2)});
  return grouped(all, key.size(1));
}

double scale_of(const std::optional<double>& scale, const Tensor& query) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(3))));
}

bool has_kernels(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
}

bool is_taken(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto is_plain = [&](const Tensor& tensor) {
    return tensor.dim() == 4 && tensor.numel() > 0 && !tensor.is_nested() &&
           tensor.device() == query.device() && tensor.scalar_type() == query.scalar_type();
  };
  return is_plain(query) && is_plain(key) && is_plain(value) && has_kernels(query.scalar_type()) &&
         key.sizes().slice(0, 3) == value.sizes().slice(0, 3) && query.size(0) == key.size(0) &&
         query.size(3) == key.size(3) && query.size(1) % key.size(1) == 0;
}

int64_t choice(const Tensor& query, const Tensor& key, const Tensor& value,
               const std::optional<Tensor>& mask, double dropout, bool, std::optional<double>,
               bool enable_gqa) {
  if (query.is_nested() || key.is_nested() || value.is_nested()) {
    return static_cast<int64_t>(at::SDPBackend::math);
  }
  const bool has_all_heads = query.dim() == 4 && key.dim() == 4 && query.size(1) == key.size(1);
  const bool has_mask = mask.has_value() && mask->defined();
  const bool may = at::globalContext().userEnabledOverrideableSDP() && dropout == 0.0 &&
                   (has_all_heads || enable_gqa) && is_taken(query, key, value) &&
                   (!has_mask || (mask->dim() <= 4 && mask->device() == query.device()));
  return static_cast<int64_t>(may ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Forward attention(const Tensor& query, const Tensor& key, const Tensor& value,
                  const std::optional<Tensor>& bias, double dropout, bool is_causal, bool,
                  std::optional<double> scale) {
  static const int32_t op = op_named("spyre::attention");
  TORCH_CHECK(dropout == 0.0, "attention on spyre drops nothing out: dropout_p is ", dropout,
              "; F.scaled_dot_product_attention takes another way");
  TORCH_CHECK(is_taken(query, key, value),
              "attention on spyre takes float tensors (batch, heads, length, width) of one dtype, not ",
              query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  const auto made = call_native(op, {grouped(query, key.size(1)), key, value,
                                     grouped_bias(bias, query, key), scale_of(scale, query), is_causal});
  TORCH_CHECK(made.has_value(), "attention on spyre has no kernel for ", query.scalar_type());
  const Tensor nothing;
  const Tensor no_seed = at::empty({}, at::TensorOptions().dtype(at::kLong));
  return {(*made)[0].flatten(1, 2), (*made)[1].flatten(1, 2), nothing, nothing, query.sym_size(2),
          key.sym_size(2), no_seed, no_seed, nothing};
}

using Backward = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Backward attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                            const Tensor& value, const Tensor& bias, std::array<bool, 4> wanted,
                            const Tensor& out, const Tensor& logsumexp, const Tensor&, const Tensor&,
                            c10::SymInt, c10::SymInt, double, bool is_causal, const Tensor&,
                            const Tensor&, std::optional<double> scale) {
  static const int32_t op = op_named("spyre::attention_backward");
  const int64_t heads = key.size(1);
  const auto made = call_native(op, {grouped(grad, heads), grouped(query, heads), key, value,
                                     grouped_bias(bias, query, key), scale_of(scale, query), is_causal,
                                     grouped(out, heads), grouped(logsumexp, heads)});
  TORCH_CHECK(made.has_value(), "attention on spyre has no gradient kernel for ", query.scalar_type());
  Tensor to_bias;
  if (wanted[3] && bias.defined()) {
    to_bias = at::sum_to((*made)[3].flatten(1, 2), bias.sizes()).to(bias.scalar_type());
  }
  return {(*made)[0].flatten(1, 2), (*made)[1], (*made)[2], to_bias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
}

} // namespace
} // namespace spyre

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &spyre::choice)
} // namespace at::native
