// Arguments that an op refuses, where its kernel would not see it: the host looks first.
#include "checks.h"

#include "spyre.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <utility>

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

// Whether a number can be stored: to convert it raises otherwise.
void check_fits(const at::Scalar& number, c10::ScalarType dtype) {
  AT_DISPATCH_V2(dtype, "fill", AT_WRAP([&] { (void)number.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16, AT_EXPAND(AT_FLOAT8_TYPES),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
}

template <size_t number>
void fits(Given given) {
  check_fits(given[number].toScalar(), given[0].toTensor().scalar_type());
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

constexpr std::pair<std::string_view, Check> kChecks[] = {
    {"bernoulli_.Tensor", probabilities<1>},
    {"bernoulli.out", probabilities<0>},
    {"fill_.Scalar", fits<1>},
    {"masked_fill_.Scalar", fits<2>},
    {"index_fill_.int_Scalar", fits<3>},
    {"index_select.out", apart<3, 0, 2>},
    {"cat.out", cat_apart},
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
