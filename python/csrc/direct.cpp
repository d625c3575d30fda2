// Ops that are called most, where there is nothing to sort out: tensors of one shape and dtype.
//
// A boxed call copies its tensors, and each copy may have to take Python's lock; a structured one works
// out shapes and dtypes first. These do neither. What is not so simple goes the usual way.
#include "native.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/cos_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/div_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/exp_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/mul_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/neg_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/reciprocal_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/rsqrt_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/sigmoid_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/silu_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/sin_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/sqrt_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/sub_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/tanh_compositeexplicitautogradnonfunctional_dispatch.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace spyre {
namespace {

using at::Scalar;
using at::Tensor;
namespace usual = at::compositeexplicitautogradnonfunctional;

// The name of an op's form that writes its last argument.
template <size_t N>
struct Name {
  constexpr Name(const char (&given)[N]) {
    std::copy_n(given, N, text);
  }
  char text[N];
};

template <Name name>
int32_t number() {
  static const int32_t known = [] {
    int32_t op = 0;
    while (spyre_op_name(op) != nullptr && std::string_view(name.text) != spyre_op_name(op)) {
      ++op;
    }
    TORCH_INTERNAL_ASSERT(spyre_op_name(op) != nullptr, "there is no kernel for ", name.text);
    return op;
  }();
  return known;
}

// A call with few arguments. It points to the tensors that it is given.
class Call {
 public:
  explicit Call(int32_t op) : op_(op) {}
  Call(const Call&) = delete; // arguments point to its views
  Call& operator=(const Call&) = delete;

  Call& add(const Tensor& tensor) {
    views_[view_count_] = view_of(tensor);
    auto& argument = next(SpyreArgumentKind::Tensor);
    argument.count = 1;
    argument.list = &views_[view_count_++];
    return *this;
  }

  Call& add(const Scalar& number) {
    if (number.isFloatingPoint()) {
      next(SpyreArgumentKind::Float).real = number.toDouble();
    } else {
      next(number.isBoolean() ? SpyreArgumentKind::Bool : SpyreArgumentKind::Int).integer = number.toLong();
    }
    return *this;
  }

  // Whether the card has taken it, with the last argument written.
  bool write(c10::DeviceIndex device) const {
    const int64_t written = count_ - 1;
    SpyreResult wanted; // what another shape would be
    return run(device, &written, 1, &wanted) >= 0;
  }

  // A new result, or an undefined tensor if the card has not taken it.
  Tensor make(c10::DeviceIndex device) const {
    SpyreResult result;
    return run(device, nullptr, 0, &result) == 1 ? tensor_of(device, result) : Tensor();
  }

 private:
  // How many results there are; -1 if the card has not taken it.
  int64_t run(c10::DeviceIndex device, const int64_t* written, int64_t written_count, SpyreResult* result) const {
    const auto dtype = static_cast<int32_t>(c10::get_default_dtype_as_scalartype());
    const SpyreCall call{op_, device, dtype, arguments_, count_, written, written_count, result, 1};
    int64_t count = 0;
    const SpyreStatus status = spyre_call(&call, &count);
    if (status == SpyreStatus::Unsupported || status == SpyreStatus::Resize) {
      return -1;
    }
    check(status);
    return count;
  }

  SpyreArgument& next(SpyreArgumentKind kind) {
    auto& argument = arguments_[count_++];
    argument = SpyreArgument{};
    argument.kind = kind;
    argument.dtype = -1;
    return argument;
  }

  static constexpr size_t kMost = 4;
  int32_t op_;
  int64_t count_ = 0;
  size_t view_count_ = 0;
  SpyreArgument arguments_[kMost];
  SpyreView views_[kMost];
};

// Whether a result of the same shape, strides and dtype is what an elementwise op gives.
bool is_plain(const Tensor& self) {
  return self.device().type() == kSpyre && at::isFloatingType(self.scalar_type()) &&
      self.is_non_overlapping_and_dense();
}

bool are_alike(const Tensor& self, const Tensor& other) {
  return other.device() == self.device() && other.scalar_type() == self.scalar_type() &&
      other.sizes() == self.sizes() && other.strides() == self.strides();
}

// The number that a tensor of the host stands for, if it is a mere one.
std::optional<Scalar> number_in(const Tensor& other) {
  if (other.unsafeGetTensorImpl()->is_wrapped_number() && other.device().type() == at::kCPU) {
    if (other.scalar_type() == at::kDouble) {
      return Scalar(*other.const_data_ptr<double>());
    }
    if (other.scalar_type() == at::kLong) {
      return Scalar(*other.const_data_ptr<int64_t>());
    }
  }
  return std::nullopt;
}

// Adds tensors of one shape and dtype, or one and a number; false if it is not so simple.
template <class... Numbers>
bool add_to(Call& call, const Tensor& self, const Tensor& other, const Numbers&... numbers) {
  if (!is_plain(self) || (... || numbers.isComplex())) {
    return false;
  }
  call.add(self);
  if (are_alike(self, other)) {
    call.add(other);
  } else if (const auto number = number_in(other)) {
    call.add(*number);
  } else {
    return false;
  }
  (call.add(numbers), ...);
  return true;
}

// An op of two tensors, and numbers perhaps: a new result, or the first one's.
template <Name name, class... Numbers>
struct Binary {
  template <Tensor (*usual)(const Tensor&, const Tensor&, const Numbers&...)>
  static Tensor make(const Tensor& self, const Tensor& other, const Numbers&... numbers) {
    Call call(number<name>());
    if (add_to(call, self, other, numbers...)) {
      Tensor made = call.make(self.device().index());
      if (C10_LIKELY(made.defined())) {
        return made;
      }
    }
    return usual(self, other, numbers...);
  }

  template <Tensor& (*usual)(Tensor&, const Tensor&, const Numbers&...)>
  static Tensor& change(Tensor& self, const Tensor& other, const Numbers&... numbers) {
    Call call(number<name>());
    const bool is_done = add_to(call, self, other, numbers...) && call.add(self).write(self.device().index());
    return is_done ? self : usual(self, other, numbers...);
  }
};

template <Name name, Tensor (*usual)(const Tensor&)>
Tensor unary(const Tensor& self) {
  if (is_plain(self)) {
    Tensor made = Call(number<name>()).add(self).make(self.device().index());
    if (C10_LIKELY(made.defined())) {
      return made;
    }
  }
  return usual(self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Add = Binary<"add.out", Scalar>;
  using Sub = Binary<"sub.out", Scalar>;
  using Mul = Binary<"mul.out">;
  using Div = Binary<"div.out">;
  m.impl("add.Tensor", TORCH_FN(Add::make<usual::add>));
  m.impl("add_.Tensor", TORCH_FN(Add::change<usual::add_>));
  m.impl("sub.Tensor", TORCH_FN(Sub::make<usual::sub>));
  m.impl("sub_.Tensor", TORCH_FN(Sub::change<usual::sub_>));
  m.impl("mul.Tensor", TORCH_FN(Mul::make<usual::mul>));
  m.impl("mul_.Tensor", TORCH_FN(Mul::change<usual::mul_>));
  m.impl("div.Tensor", TORCH_FN(Div::make<usual::div>));
  m.impl("div_.Tensor", TORCH_FN(Div::change<usual::div_>));
  m.impl("cos", TORCH_FN((unary<"cos.out", usual::cos>)));
  m.impl("exp", TORCH_FN((unary<"exp.out", usual::exp>)));
  m.impl("neg", TORCH_FN((unary<"neg.out", usual::neg>)));
  m.impl("reciprocal", TORCH_FN((unary<"reciprocal.out", usual::reciprocal>)));
  m.impl("rsqrt", TORCH_FN((unary<"rsqrt.out", usual::rsqrt>)));
  m.impl("sigmoid", TORCH_FN((unary<"sigmoid.out", usual::sigmoid>)));
  m.impl("silu", TORCH_FN((unary<"silu.out", usual::silu>)));
  m.impl("sin", TORCH_FN((unary<"sin.out", usual::sin>)));
  m.impl("sqrt", TORCH_FN((unary<"sqrt.out", usual::sqrt>)));
  m.impl("tanh", TORCH_FN((unary<"tanh.out", usual::tanh>)));
}

} // namespace
} // namespace spyre
