// Attention: PyTorch's choice of a way, and the ops of the one that the card's kernels take.
#include "native.h"
#include "operators.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace spyre {
namespace {

using at::Tensor;

// Shapes of tensors without their memory: there may be none. Sizes of fake tensors may be symbols, which a choice must
// not turn into numbers: each stands for a number that no tensor has, and those known to be equal for the same one.
class Shapes {
 public:
  SpyreView of(const Tensor& tensor) {
    SpyreView view{};
    view.dim = tensor.dim();
    view.dtype = static_cast<int32_t>(tensor.scalar_type());
    if (!tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
      view.sizes = tensor.sizes().data();
      view.strides = tensor.strides().data();
      return view;
    }
    auto& numbers = numbers_.emplace_back();
    for (const c10::SymInt& size : tensor.sym_sizes()) {
      numbers.push_back(number_of(size));
    }
    view.sizes = view.strides = numbers.data(); // a choice asks for no strides
    return view;
  }

 private:
  static constexpr int64_t kFirstSymbol = int64_t{1} << 40;

  int64_t number_of(const c10::SymInt& size) {
    if (const auto known = size.maybe_as_int()) {
      return *known;
    }
    if (!TORCH_STATICALLY_KNOWN_TRUE(size.sym_gt(0))) {
      return 0;
    }
    const auto known = std::find_if(symbols_.begin(), symbols_.end(), [&](const c10::SymInt& other) {
      return TORCH_STATICALLY_KNOWN_TRUE(size.sym_eq(other));
    });
    const auto at = known - symbols_.begin();
    if (known == symbols_.end()) {
      symbols_.push_back(size);
    }
    return kFirstSymbol + at;
  }

  std::deque<c10::SmallVector<int64_t, 4>> numbers_;
  std::vector<c10::SymInt> symbols_;
};

int64_t choice(const Tensor& query, const Tensor& key, const Tensor& value,
               const std::optional<Tensor>& mask, double dropout, bool, std::optional<double>,
               bool enable_gqa) {
  const auto is_plain = [&](const Tensor& tensor) {
    return !tensor.is_nested() && tensor.device() == query.device();
  };
  const bool has_mask = mask.has_value() && mask->defined();
  bool takes = false;
  if (at::globalContext().userEnabledOverrideableSDP() && is_plain(query) && is_plain(key) && is_plain(value) &&
      (!has_mask || is_plain(*mask))) {
    Shapes shapes;
    SpyreAttention tensors{shapes.of(query), shapes.of(key), shapes.of(value), {}};
    tensors.mask.dim = -1;
    if (has_mask) {
      tensors.mask = shapes.of(*mask);
    }
    check(spyre_takes_attention(&tensors, dropout, enable_gqa, &takes));
  }
  return static_cast<int64_t>(takes ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Forward attention(const Tensor& query, const Tensor& key, const Tensor& value,
                  const std::optional<Tensor>& bias, double dropout, bool is_causal, bool,
                  std::optional<double> scale) {
  static const int32_t op = op_named("spyre::attention");
  TORCH_CHECK(dropout == 0.0, "attention on spyre drops nothing out: dropout_p is ", dropout,
              "; F.scaled_dot_product_attention takes another way");
  const auto made = call_native(op, {query, key, value, bias, scale, is_causal});
  TORCH_CHECK(made.has_value(),
              "attention on spyre takes float tensors (batch, heads, length, width) of one dtype, not ",
              query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  const Tensor nothing;
  const Tensor no_seed = at::empty({}, at::TensorOptions().dtype(at::kLong));
  return {(*made)[0], (*made)[1], nothing, nothing, query.sym_size(2), key.sym_size(2), no_seed, no_seed, nothing};
}

using Backward = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Backward attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                            const Tensor& value, const Tensor& bias, std::array<bool, 4> wanted,
                            const Tensor& out, const Tensor& logsumexp, const Tensor&, const Tensor&,
                            c10::SymInt, c10::SymInt, double, bool is_causal, const Tensor&,
                            const Tensor&, std::optional<double> scale) {
  static const int32_t op = op_named("spyre::attention_backward");
  const auto made = call_native(op, {grad, query, key, value, bias, scale, is_causal, out, logsumexp});
  TORCH_CHECK(made.has_value(), "attention on spyre has no gradient kernel for ", query.scalar_type());
  Tensor to_bias;
  if (wanted[3] && bias.defined()) {
    to_bias = at::sum_to((*made)[3], bias.sizes()).to(bias.scalar_type());
  }
  return {(*made)[0], (*made)[1], (*made)[2], to_bias};
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
