// Arguments that an op refuses, where its kernel would not see it: the host looks first.
#include "checks.h"

#include "spyre.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TypeProperties.h>

#include <cmath>
#include <utility>
#include <vector>

namespace spyre {
namespace {

using at::Tensor;
using Given = c10::ArrayRef<c10::IValue>;

// A NaN is no probability, either.
void check_probabilities(const Tensor& given) {
  if (given.numel() == 0 || !at::isFloatingType(given.scalar_type()) || given.device().type() != kSpyre) {
    return;
  }
  TORCH_CHECK((given.ge(0) & given.le(1)).all().item<bool>(),
              "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
}

template <size_t at>
void probabilities(Given given) {
  check_probabilities(given[at].toTensor());
}

// A deviation is a number or a tensor of numbers.
void deviations(Given given) {
  if (!given[1].isTensor()) {
    const double deviation = given[1].toDouble();
    TORCH_CHECK(deviation >= 0.0, "normal expects std >= 0.0, but found std ", deviation);
    return;
  }
  const Tensor& deviation = given[1].toTensor();
  TORCH_CHECK(!deviation.is_complex(), "normal expects standard deviation to be non-complex");
  TORCH_CHECK(deviation.numel() == 0 || deviation.is_meta() || deviation.min().ge(0).item<bool>(),
              "normal expects all elements of std >= 0.0");
}

void samples(Given given) {
  const Tensor& rates = given[0].toTensor();
  TORCH_CHECK(rates.dim() > 0 && rates.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(rates.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", rates.scalar_type());
  TORCH_CHECK(given[1].toInt() > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(given[2].toBool() || given[1].toInt() <= rates.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  if (rates.numel() > 0) {
    TORCH_CHECK((rates.lt(INFINITY) & rates.ge(0)).all().item<bool>(),
                "probability tensor contains either `inf`, `nan` or element < 0");
    TORCH_CHECK(rates.sum(-1).ne(0).all().item<bool>(),
                "invalid multinomial distribution (sum of probabilities <= 0)");
  }
}

void samples_out(Given given) {
  const Tensor& out = given[4].toTensor();
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(out.device() == given[0].toTensor().device(), "multinomial arguments must have the same device");
  samples(given);
}

// Whether a number can be stored: to convert it raises otherwise.
void check_fits(const at::Scalar& number, c10::ScalarType dtype) {
  AT_DISPATCH_V2(dtype, "fill", AT_WRAP([&] { (void)number.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16, AT_EXPAND(AT_FLOAT8_TYPES),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
}

template <size_t... numbers>
void fits(Given given) {
  const auto dtype = given[0].toTensor().scalar_type();
  (check_fits(given[numbers].toScalar(), dtype), ...);
}

// Limits of whole numbers are whole, and not below what bytes can be.
void limits(Given given) {
  const auto dtype = given[0].toTensor().scalar_type();
  for (const size_t at : {1, 2}) {
    const auto limit = given[at].toScalar();
    const bool is_whole = at::isIntegralType(dtype, /*includeBool=*/false);
    TORCH_CHECK(dtype != at::kByte || limit.toLong() >= 0,
                "cannot do hardtanh on an unsigned type with negative limits");
    check_fits(is_whole ? at::Scalar(limit.toLong()) : limit, dtype);
  }
}

// Results that are read while they are written.
template <size_t out, size_t... others>
void apart(Given given) {
  const Tensor& target = given[out].toTensor();
  at::assert_no_internal_overlap(target);
  (at::assert_no_overlap(target, given[others].toTensor()), ...);
}

void cat_apart(Given given) {
  const Tensor& target = given[2].toTensor();
  at::assert_no_internal_overlap(target);
  for (const auto& part : given[0].toListRef()) {
    at::assert_no_overlap(target, part.toTensor());
  }
}

// Arguments and results that are not converted.
template <size_t first, size_t... others>
void of_one_dtype(Given given) {
  const auto dtype = given[first].toTensor().scalar_type();
  TORCH_CHECK(((given[others].toTensor().scalar_type() == dtype) && ...),
              "heaviside is not yet implemented for tensors with different dtypes.");
}

// A choice is of its branches' dtype.
void chosen(Given given) {
  const auto expected = at::result_type(given[1].toTensor(), given[2].toTensor());
  const auto dtype = given[3].toTensor().scalar_type();
  TORCH_CHECK(dtype == expected, "Expected out type to be ", expected, " but got ", dtype);
}

// LAPACK may write past its memory for matrices that are not.
void finite(Given given) {
  const Tensor& x = given[0].toTensor();
  TORCH_CHECK(x.numel() == 0 || x.isfinite().all().item<bool>(),
              "torch.linalg.eigvals: input tensor should not contain infs or NaNs.");
}

void boolean_result(Given given) {
  TORCH_CHECK(given[1].toTensor().scalar_type() == at::kBool,
              "isneginf, isposinf and signbit do not support non-boolean outputs.");
}

// Refuses dims that are named twice, or past the 64 that PyTorch reduces; warns of a correction that leaves nothing.
void check_spread(const char* name, Given given) {
  const Tensor& x = given[0].toTensor();
  const auto listed = given[1].isNone() ? std::vector<int64_t>() : given[1].toIntVector();
  const auto reduced = at::dim_list_to_bitset(listed, x.dim());
  int64_t results = 1;
  for (int64_t dim = 0; dim < x.dim(); ++dim) {
    results *= listed.empty() || reduced[dim] ? 1 : x.size(dim);
  }
  const double correction = given[2].isNone() ? 1 : given[2].toScalar().toDouble();
  if ((results == 0 ? 0 : x.numel() / results) - correction <= 0) {
    TORCH_WARN(name, "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
                     "(input numel divided by output numel).");
  }
}

// Weights and statistics of a norm are of its input's dtype, or float32 where that is narrower.
void parameters(Given given) {
  const auto own = given[0].toTensor().scalar_type();
  for (const auto& value : given.slice(1)) {
    if (!value.isTensor() || !value.toTensor().defined()) {
      continue;
    }
    const auto dtype = value.toTensor().scalar_type();
    TORCH_CHECK(dtype == own || (at::isReducedFloatingType(own) && dtype == at::kFloat),
                "mixed dtype: Expected weight to have type ", own, " as the input does, but got ", dtype);
  }
}

constexpr std::pair<std::string_view, Check> kChecks[] = {
    {"bernoulli_.Tensor", probabilities<1>},
    {"bernoulli.out", probabilities<0>},
    {"fill_.Scalar", fits<1>},
    {"heaviside.out", of_one_dtype<0, 1, 2>},
    {"hardtanh", limits},
    {"hardtanh.out", limits},
    {"hardtanh_", limits},
    {"isneginf.out", boolean_result},
    {"isposinf.out", boolean_result},
    {"signbit.out", boolean_result},
    {"masked_fill_.Scalar", fits<2>},
    {"threshold.out", fits<1, 2>},
    {"index_fill_.int_Scalar", fits<3>},
    {"index_select.out", apart<3, 0, 2>},
    {"cat.out", cat_apart},
    {"where.self_out", chosen},
    {"_linalg_eigvals", finite},
    {"linalg_eigvals.out", finite},
    {"normal.Tensor_float", deviations},
    {"normal.Tensor_float_out", deviations},
    {"normal.float_Tensor", deviations},
    {"normal.float_Tensor_out", deviations},
    {"normal.Tensor_Tensor", deviations},
    {"normal.Tensor_Tensor_out", deviations},
    {"multinomial", samples},
    {"multinomial.out", samples_out},
    {"native_layer_norm", parameters},
    {"native_group_norm", parameters},
    {"native_batch_norm", parameters},
    {"_native_batch_norm_legit", parameters},
    {"_native_batch_norm_legit.no_stats", parameters},
    {"_batch_norm_with_update", parameters},
    {"var.correction", [](Given given) { check_spread("var", given); }},
    {"var.correction_out", [](Given given) { check_spread("var", given); }},
    {"std.correction", [](Given given) { check_spread("std", given); }},
    {"std.correction_out", [](Given given) { check_spread("std", given); }},
    {"var_mean.correction", [](Given given) { check_spread("var_mean", given); }},
    {"std_mean.correction", [](Given given) { check_spread("std_mean", given); }},
};

} // namespace

Check check_of(std::string_view op) {
  for (const auto& [name, check] : kChecks) {
    if (name == op) {
      return check;
    }
  }
  return nullptr;
}

} // namespace spyre
