// Windows of signals that PyTorch computes by a kernel of each device's own.
#include "spyre.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/i0.h>
#include <ATen/ops/ones.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

#include <cmath>

namespace spyre {
namespace {

using at::Tensor;
template <typename T>
using Maybe = std::optional<T>;

constexpr double kUsualBeta = 12.0;

c10::TensorOptions options_of(int64_t length, Maybe<c10::ScalarType> dtype, Maybe<c10::Layout> layout,
                              Maybe<c10::Device> device) {
  const auto kept = dtype.value_or(c10::get_default_dtype_as_scalartype());
  TORCH_CHECK(layout.value_or(c10::kStrided) == c10::kStrided, "kaiser_window is not implemented for sparse types, got: ",
              *layout);
  TORCH_CHECK(at::isFloatingType(kept) || at::isComplexType(kept),
              "kaiser_window expects floating point dtypes, got: ", kept);
  TORCH_CHECK(length >= 0, "kaiser_window requires non-negative window_length, got window_length=", length);
  return c10::TensorOptions().dtype(kept).device(device.value_or(c10::Device(kSpyre)));
}

// The modified Bessel function of order zero, by its series.
double bessel_i0(double x) {
  double sum = 1.0;
  double term = 1.0;
  for (int nth = 1; term > sum * 1e-17; ++nth) {
    term *= (x / (2.0 * nth)) * (x / (2.0 * nth));
    sum += term;
  }
  return sum;
}

Tensor whole_window(int64_t length, double beta, const c10::TensorOptions& options) {
  const bool is_double = options.dtype() == at::kDouble;
  const Tensor at = at::arange(length, options.dtype(is_double ? at::kDouble : at::kFloat));
  const Tensor x = at * (2.0 / static_cast<double>(length - 1)) - 1.0;
  const Tensor root = (1.0 - x * x).clamp_min(0).sqrt();
  return (at::i0(root * beta) / bessel_i0(std::abs(beta))).to(options.dtype());
}

Tensor kaiser_window(int64_t length, bool periodic, double beta, Maybe<c10::ScalarType> dtype,
                     Maybe<c10::Layout> layout, Maybe<c10::Device> device, Maybe<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const auto options = options_of(length, dtype, layout, device);
  if (length <= 1) {
    return length == 0 ? at::empty({0}, options) : at::ones({1}, options);
  }
  return periodic ? whole_window(length + 1, beta, options).narrow(0, 0, length) : whole_window(length, beta, options);
}

Tensor kaiser_window_usual(int64_t length, Maybe<c10::ScalarType> dtype, Maybe<c10::Layout> layout,
                           Maybe<c10::Device> device, Maybe<bool> pin_memory) {
  return kaiser_window(length, true, kUsualBeta, dtype, layout, device, pin_memory);
}

Tensor kaiser_window_periodic(int64_t length, bool periodic, Maybe<c10::ScalarType> dtype, Maybe<c10::Layout> layout,
                              Maybe<c10::Device> device, Maybe<bool> pin_memory) {
  return kaiser_window(length, periodic, kUsualBeta, dtype, layout, device, pin_memory);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("kaiser_window", TORCH_FN(kaiser_window_usual));
  m.impl("kaiser_window.periodic", TORCH_FN(kaiser_window_periodic));
  m.impl("kaiser_window.beta", TORCH_FN(kaiser_window));
}

} // namespace
} // namespace spyre
