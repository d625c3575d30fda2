// Random ops that are put together from others.
#include "native.h"

#include <ATen/TensorOperators.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace spyre {
namespace {

using at::Tensor;
using MaybeGenerator = std::optional<at::Generator>;

template <typename RNG>
struct Normal {
  void operator()(Tensor& self, double mean, double deviation, const MaybeGenerator& generator) {
    self.normal_(mean, deviation, generator);
  }
};

template <typename Mean, typename Deviation>
Tensor normal(Mean mean, Deviation deviation, MaybeGenerator generator) {
  return at::native::templates::normal_impl<Normal, at::Generator>(mean, deviation, generator);
}

template <typename Mean, typename Deviation>
Tensor& normal_out(Mean mean, Deviation deviation, MaybeGenerator generator, Tensor& out) {
  return at::native::templates::normal_out_impl<Normal, at::Generator>(out, mean, deviation, generator);
}

void check_multinomial(const Tensor& self, int64_t samples, bool replacement) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  if (self.numel() > 0) {
    TORCH_CHECK((self.lt(INFINITY) & self.ge(0)).all().item<bool>(),
                "probability tensor contains either `inf`, `nan` or element < 0");
    TORCH_CHECK(self.sum(-1).ne(0).all().item<bool>(),
                "invalid multinomial distribution (sum of probabilities <= 0)");
  }
}

// Each sample from all of a row.
void sample_anew(const Tensor& self, int64_t samples, const at::Generator& generator, Tensor& out) {
  static const int32_t op = op_named("spyre::multinomial");
  const bool is_row = self.dim() == 1;
  const Tensor rows = is_row ? self.unsqueeze(0) : self;
  const auto made = call_native(op, {rows, generator, is_row ? out.unsqueeze(0) : out}, {2});
  TORCH_CHECK(made.has_value(), "multinomial: no kernel draws from ", self.scalar_type());
}

// Arrivals at the rates of a row: the first ones are samples that do not repeat.
void sample_once(const Tensor& self, int64_t samples, const at::Generator& generator, Tensor& out) {
  const Tensor rates = self / at::empty_like(self).exponential_(1, generator);
  if (samples == 1) {
    out.copy_(rates.argmax(-1, true));
  } else {
    out.copy_(std::get<1>(rates.topk(samples)));
  }
}

Tensor& multinomial_out(const Tensor& self, int64_t samples, bool replacement, MaybeGenerator generator,
                        Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(out.device() == self.device(), "multinomial arguments must have the same device");
  check_multinomial(self, samples, replacement);
  auto sizes = self.sizes().vec();
  sizes.back() = samples;
  at::native::resize_output(out, sizes);
  if (out.numel() > 0) {
    const auto& from = generator.has_value() ? *generator : default_generator(self.device());
    if (from.device().type() == at::kCPU) {
      return out.copy_(self.to(at::kCPU).multinomial(samples, replacement, from));
    }
    TORCH_CHECK(from.device().type() == kSpyre, "Expected a 'spyre' device type for generator but found '",
                from.device().type(), "'");
    const auto sample = replacement && samples > 1 ? sample_anew : sample_once;
    sample(self, samples, from, out);
  }
  return out;
}

Tensor multinomial(const Tensor& self, int64_t samples, bool replacement, MaybeGenerator generator) {
  Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return multinomial_out(self, samples, replacement, std::move(generator), out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("normal.Tensor_float", TORCH_FN((normal<const Tensor&, double>)));
  m.impl("normal.float_Tensor", TORCH_FN((normal<double, const Tensor&>)));
  m.impl("normal.Tensor_Tensor", TORCH_FN((normal<const Tensor&, const Tensor&>)));
  m.impl("normal.Tensor_float_out", TORCH_FN((normal_out<const Tensor&, double>)));
  m.impl("normal.float_Tensor_out", TORCH_FN((normal_out<double, const Tensor&>)));
  m.impl("normal.Tensor_Tensor_out", TORCH_FN((normal_out<const Tensor&, const Tensor&>)));
  m.impl("multinomial", TORCH_FN(multinomial));
  m.impl("multinomial.out", TORCH_FN(multinomial_out));
}

} // namespace
} // namespace spyre
