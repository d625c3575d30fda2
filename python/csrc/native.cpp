// Ops that the card has kernels for: one boxed kernel hands each call to the Rust side.
#include "native.h"

#include "checks.h"
#include "fallback.h"
#include "operators.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>

namespace spyre {
namespace {

using at::Tensor;
using torch::jit::Stack;

// Results that a part of an op has at most.
constexpr int64_t kMostResults = 16;

// A call's arguments as the Rust side sees them: they point into the stack.
class Arguments {
 public:
  // Whether it can be handed over at all: otherwise the CPU's kernel says what is wrong with it.
  bool take(c10::ArrayRef<c10::IValue> values) {
    arguments_.reserve(values.size());
    views_.reserve(count_tensors(values));
    for (const auto& value : values) {
      if (!take(value)) {
        return false;
      }
    }
    return device_.has_value();
  }

  c10::Device device() const {
    return *device_;
  }

  const c10::SmallVector<SpyreArgument, 8>& list() const {
    return arguments_;
  }

  // An argument, or one more, is where a generator's random numbers are; the generator moves on.
  void set_random(size_t at, const at::Generator& generator) {
    check(spyre_refuse_in_capture(device().index(), "to draw random numbers, which would be the same in each replay,"));
    auto* impl = generator.unsafeGetGeneratorImpl();
    const std::lock_guard<std::mutex> lock(impl->mutex_);
    SpyreArgument argument{};
    argument.dtype = -1;
    argument.kind = SpyreArgumentKind::Random;
    argument.integer = static_cast<int64_t>(impl->current_seed());
    argument.count = static_cast<int64_t>(impl->get_offset());
    impl->set_offset(impl->get_offset() + 4);
    if (at == arguments_.size()) {
      arguments_.push_back(argument);
    } else {
      arguments_[at] = argument;
    }
  }

 private:
  // Views are pointed to: they may not move when more come.
  static size_t count_tensors(c10::ArrayRef<c10::IValue> values) {
    size_t count = 0;
    for (const auto& value : values) {
      if (value.isTensor()) {
        ++count;
      } else if (is_tensors(value)) {
        count += value.toListRef().size();
      }
    }
    return count;
  }

  bool take(const c10::IValue& value) {
    SpyreArgument argument{};
    argument.dtype = -1;
    if (value.isTensor()) {
      return take_tensor(value.toTensor(), argument);
    }
    if (value.isNone()) {
      argument.kind = SpyreArgumentKind::None;
    } else if (value.isInt()) {
      set_int(argument, SpyreArgumentKind::Int, value.toInt());
    } else if (value.isDouble()) {
      set_float(argument, value.toDouble(), 0);
    } else if (value.isBool()) {
      set_int(argument, SpyreArgumentKind::Bool, value.toBool());
    } else if (value.isComplexDouble()) {
      const auto number = value.toComplexDouble();
      set_float(argument, number.real(), number.imag());
    } else if (value.isString()) {
      argument.kind = SpyreArgumentKind::String;
      argument.list = value.toStringRef().c_str();
    } else if (value.isIntList()) {
      const auto& list = numbers_.emplace_back(value.toIntVector());
      set_list(argument, SpyreArgumentKind::Ints, list.data(), list.size());
    } else if (value.isDoubleList()) {
      const auto& list = floats_.emplace_back(value.toDoubleVector());
      set_list(argument, SpyreArgumentKind::Floats, list.data(), list.size());
    } else if (value.isBoolList()) {
      const auto list = value.toBoolList();
      auto& bools = bools_.emplace_back(new bool[list.size()]);
      std::copy(list.begin(), list.end(), bools.get());
      set_list(argument, SpyreArgumentKind::Bools, bools.get(), list.size());
    } else if (is_tensors(value)) {
      return take_tensors(value, argument);
    } else if (!value.isDevice() && !value.isGenerator()) {
      return false;
    }
    arguments_.push_back(argument);
    return true;
  }

  static void set_int(SpyreArgument& argument, SpyreArgumentKind kind, int64_t value) {
    argument.kind = kind;
    argument.integer = value;
  }

  static void set_float(SpyreArgument& argument, double real, double imaginary) {
    argument.kind = SpyreArgumentKind::Float;
    argument.real = real;
    argument.imaginary = imaginary;
  }

  static void set_list(SpyreArgument& argument, SpyreArgumentKind kind, const void* list, size_t count) {
    argument.kind = kind;
    argument.list = list;
    argument.count = static_cast<int64_t>(count);
  }

  bool take_tensor(const Tensor& tensor, SpyreArgument& argument) {
    if (!tensor.defined()) {
      argument.kind = SpyreArgumentKind::None;
    } else if (tensor.device().type() == kSpyre) {
      if (!see_device(tensor)) {
        return false;
      }
      views_.push_back(view_of(tensor));
      set_list(argument, SpyreArgumentKind::Tensor, &views_.back(), 1);
    } else if (!take_number(tensor, argument)) {
      return false;
    }
    arguments_.push_back(argument);
    return true;
  }

  // A tensor of the CPU with one element is a number.
  static bool take_number(const Tensor& tensor, SpyreArgument& argument) {
    if (tensor.dim() != 0 || tensor.device().type() != at::kCPU || tensor.layout() != at::kStrided) {
      return false;
    }
    const at::Scalar number = tensor.item();
    if (number.isBoolean()) {
      set_int(argument, SpyreArgumentKind::Bool, number.toBool());
    } else if (number.isIntegral(false)) {
      set_int(argument, SpyreArgumentKind::Int, number.toLong());
    } else if (number.isComplex()) {
      const auto value = number.toComplexDouble();
      set_float(argument, value.real(), value.imag());
    } else {
      set_float(argument, number.toDouble(), 0);
    }
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      argument.dtype = static_cast<int32_t>(tensor.scalar_type());
    }
    return true;
  }

  bool take_tensors(const c10::IValue& value, SpyreArgument& argument) {
    const auto first = views_.size();
    const auto take = [&](const Tensor& tensor) {
      if (!tensor.defined()) {
        SpyreView nothing{};
        nothing.dim = -1;
        views_.push_back(nothing);
        return true;
      }
      if (tensor.device().type() != kSpyre || !see_device(tensor)) {
        return false;
      }
      views_.push_back(view_of(tensor));
      return true;
    };
    bool is_taken = true;
    each_of(value, [&](const Tensor& tensor) { is_taken = is_taken && take(tensor); });
    if (!is_taken) {
      return false;
    }
    set_list(argument, SpyreArgumentKind::Tensors, views_.data() + first, views_.size() - first);
    arguments_.push_back(argument);
    return true;
  }

  bool see_device(const Tensor& tensor) {
    if (!device_.has_value()) {
      device_ = tensor.device();
    }
    return *device_ == tensor.device();
  }

  c10::SmallVector<SpyreArgument, 8> arguments_;
  c10::SmallVector<SpyreView, 8> views_;
  // A vector's items stay where they are when the vector is moved.
  c10::SmallVector<std::vector<int64_t>, 2> numbers_;
  c10::SmallVector<std::vector<double>, 1> floats_;
  c10::SmallVector<std::unique_ptr<bool[]>, 1> bools_;
  std::optional<c10::Device> device_;
};

// What became of a call: `size` and `strides` are what a result is to have before it is called again.
struct Outcome {
  SpyreStatus status = SpyreStatus::Ok;
  Results made;
  std::vector<int64_t> size;
  std::vector<int64_t> strides;
};

// Carries a call out, of which so many results are taken.
Outcome carry_out(int32_t op, const Arguments& arguments, at::IntArrayRef written, int64_t taken) {
  SpyreResult results[kMostResults];
  const auto device = arguments.device().index();
  const SpyreCall call{op,
                       device,
                       static_cast<int32_t>(c10::get_default_dtype_as_scalartype()),
                       arguments.list().data(),
                       static_cast<int64_t>(arguments.list().size()),
                       written.data(),
                       static_cast<int64_t>(written.size()),
                       results,
                       std::clamp<int64_t>(taken, 1, kMostResults)};
  int64_t count = 0;
  Outcome outcome;
  outcome.status = spyre_call(&call, &count);
  for (int64_t at = 0; at < count; ++at) {
    outcome.made.push_back(tensor_of(device, results[at]));
  }
  if (outcome.status == SpyreStatus::Resize) {
    outcome.size.assign(results[0].sizes, results[0].sizes + results[0].dim);
    outcome.strides.assign(results[0].strides, results[0].strides + results[0].dim);
  }
  return outcome;
}

// What does not change from call to call: an op's schema is always the same.
class Signature {
 public:
  explicit Signature(const c10::OperatorHandle& op) {
    const auto& arguments = op.schema().arguments();
    for (size_t at = 0; at < arguments.size(); ++at) {
      const auto* alias = arguments[at].alias_info();
      if (alias != nullptr && alias->isWrite()) {
        written_.push_back(static_cast<int64_t>(at));
        may_resize_ = may_resize_ && arguments[at].is_out();
      }
      const auto type = arguments[at].type()->str();
      if (type.find("Generator") != std::string::npos) {
        generator_ = at;
      } else if (arguments[at].name() == "indices" && type == "Tensor?[]") {
        indices_ = at;
      }
    }
    if (!generator_.has_value() && op.hasTag(at::Tag::nondeterministic_seeded)) {
      generator_ = arguments.size();
    }
    const std::string name = c10::toString(op.operator_name());
    is_range_ = has_flag(name, SpyreFlag::Range);
    is_silent_ = has_flag(name, SpyreFlag::SilentResize);
  }

  const c10::SmallVector<int64_t, 2>& written() const {
    return written_;
  }

  // Results that are given as `out` take the shape that they are to have; a tensor that is changed keeps its own.
  void resize(c10::ArrayRef<c10::IValue> given, at::IntArrayRef size, at::IntArrayRef strides) const {
    for (const int64_t at : written_) {
      const Tensor& result = given[at].toTensor();
      TORCH_CHECK(may_resize_, "output with shape ", result.sizes(), " doesn't match the broadcast shape ", size);
      if (is_range_) {
        resize_range(result, size);
      } else if (is_silent_) {
        result.resize_(size);
      } else if (at::native::resize_output(result, size)) {
        result.as_strided_(size, strides);
      }
    }
  }

  // Masks among indices become the places that they have, and indices of the host go to the device.
  void prepare_indices(Stack& stack, size_t count) const {
    if (!indices_.has_value()) {
      return;
    }
    const auto given = torch::jit::last(stack, count);
    const Tensor& self = given[0].toTensor();
    const auto& value = given[*indices_];
    if (self.device().type() != kSpyre || !needs_preparation(value)) {
      return;
    }
    c10::List<std::optional<Tensor>> list;
    each_of(value, [&](const Tensor& index) {
      list.push_back(index.defined() ? std::optional<Tensor>(index) : std::nullopt);
    });
    c10::List<std::optional<Tensor>> prepared;
    for (const Tensor& index : at::native::expandTensors(self, at::IOptTensorListRef(list))) {
      const bool is_here = !index.defined() || index.device() == self.device();
      prepared.push_back(is_here ? index : index.to(self.device()));
    }
    stack[stack.size() - count + *indices_] = std::move(prepared);
  }

  // Whether a result lies in part on an argument, or is one of a list of them: the CPU refuses what it does not
  // take of that, before anything is written.
  bool shares_result(c10::ArrayRef<c10::IValue> given) const {
    for (const int64_t written : written_) {
      if (!given[written].isTensor() || !given[written].toTensor().defined()) {
        continue;
      }
      const auto* result = given[written].toTensor().unsafeGetTensorImpl();
      for (size_t at = 0; at < given.size(); ++at) {
        if (static_cast<int64_t>(at) != written && shares(given[at], result)) {
          return true;
        }
      }
    }
    return false;
  }

  // Gives a call the random numbers that it needs; false if it has a generator of another device.
  bool set_random(c10::ArrayRef<c10::IValue> given, Arguments& arguments) const {
    if (!generator_.has_value()) {
      return true;
    }
    if (*generator_ < given.size() && given[*generator_].isGenerator()) {
      const auto& generator = given[*generator_].toGenerator();
      if (generator.device().type() != kSpyre) {
        return false;
      }
      arguments.set_random(*generator_, generator);
      return true;
    }
    arguments.set_random(*generator_, default_generator(arguments.device()));
    return true;
  }

 private:
  // A range goes into any shape of as many elements, and the CPU has words of its own for another number of them.
  static void resize_range(const Tensor& result, at::IntArrayRef size) {
    if (result.numel() == size[0]) {
      return;
    }
    if (result.numel() > 0) {
      TORCH_WARN("The number of elements in the out tensor of shape ", result.sizes(), " is ", result.numel(),
                 " which does not match the computed number of elements ", size[0],
                 ". Note that this may occur as a result of rounding error. "
                 "The out tensor will be resized to a tensor of shape (", size[0], ",).");
    }
    result.resize_(size);
  }

  static bool shares(const c10::IValue& value, const c10::TensorImpl* result) {
    if (value.isTensor()) {
      const Tensor& tensor = value.toTensor();
      return tensor.defined() &&
          at::get_overlap_status(tensor.unsafeGetTensorImpl(), result) == at::MemOverlapStatus::Partial;
    }
    if (!value.isTensorList()) {
      return false;
    }
    for (const Tensor& tensor : value.toTensorList()) {
      if (tensor.defined() && tensor.unsafeGetTensorImpl()->unsafe_storage().is_alias_of(result->unsafe_storage())) {
        return true;
      }
    }
    return false;
  }

  static bool needs_preparation(const c10::IValue& indices) {
    bool needs = false;
    each_of(indices, [&](const Tensor& index) {
      needs = needs ||
          (index.defined() && (index.device().type() == at::kCPU || index.scalar_type() == at::kBool ||
                               index.scalar_type() == at::kByte));
    });
    return needs;
  }

  c10::SmallVector<int64_t, 2> written_;
  bool may_resize_ = true;
  bool is_range_ = false;
  // Whether results are resized without a word, as the CPU does for very few ops.
  bool is_silent_ = false;
  std::optional<size_t> indices_;
  // Which argument is one; past the last, the op draws without saying so.
  std::optional<size_t> generator_;
};

class NativeKernel final : public c10::OperatorKernel {
 public:
  explicit NativeKernel(int32_t op)
      : op_(op), fallback_(fallback_of(spyre_op_name(op))), check_(check_of(spyre_op_name(op))) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    std::call_once(once_, [&] { signature_.emplace(op); });
    if (C10_UNLIKELY(check_ != nullptr)) {
      check_(torch::jit::last(*stack, op.schema().arguments().size()));
    }
    signature_->prepare_indices(*stack, op.schema().arguments().size());
    if (!run(op, stack)) {
      fallback_(op, stack);
    }
  }

 private:
  // Whether there is a kernel for it. A result of another shape is given that first, once.
  bool run(const c10::OperatorHandle& op, Stack* stack, bool may_resize = true) {
    const auto& schema = op.schema();
    const auto count = schema.arguments().size();
    const auto given = torch::jit::last(*stack, count);
    Arguments arguments;
    if (signature_->shares_result(given) || !arguments.take(given) || !signature_->set_random(given, arguments)) {
      return false;
    }
    auto outcome = carry_out(op_, arguments, signature_->written(), static_cast<int64_t>(schema.returns().size()));
    if (outcome.status == SpyreStatus::Resize && may_resize) {
      signature_->resize(given, outcome.size, outcome.strides);
      return run(op, stack, false);
    }
    if (outcome.status == SpyreStatus::Unsupported || outcome.status == SpyreStatus::Resize) {
      return false;
    }
    check(outcome.status);
    Results returned = results_of(schema, given, std::move(outcome.made));
    leave_out(schema, given, returned);
    torch::jit::drop(*stack, count);
    for (Tensor& result : returned) {
      stack->emplace_back(std::move(result));
    }
    return true;
  }

  // Gradients that `output_mask` leaves out are undefined tensors.
  static void leave_out(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> given,
                        c10::SmallVector<Tensor, 2>& made) {
    const auto mask = schema.argumentIndexWithName("output_mask");
    if (!mask.has_value()) {
      return;
    }
    const auto wanted = given[*mask].toBoolList();
    for (size_t at = 0; at < wanted.size() && at < made.size(); ++at) {
      if (!wanted[at]) {
        made[at] = Tensor();
      }
    }
  }

  // Results are what was written, where the schema says so, and what was made.
  Results results_of(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> given, Results made) {
    Results results;
    size_t next_made = 0;
    size_t next_written = 0;
    for (const auto& returned : schema.returns()) {
      const auto* alias = returned.alias_info();
      const bool is_written = alias != nullptr && alias->isWrite();
      results.push_back(is_written ? given[signature_->written()[next_written++]].toTensor()
                                   : std::move(made[next_made++]));
    }
    return results;
  }

  int32_t op_;
  Fallback fallback_;
  Check check_;
  std::once_flag once_;
  std::optional<Signature> signature_;
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (int32_t op = 0; spyre_op_name(op) != nullptr; ++op) {
    // Parts of ops, which are put together in C++, are not PyTorch's.
    if (std::string_view(spyre_op_name(op)).find("::") == std::string_view::npos) {
      m.impl(spyre_op_name(op),
             torch::CppFunction::makeFromBoxedFunctor(std::make_unique<NativeKernel>(op)));
    }
  }
}

} // namespace

const at::Generator& default_generator(c10::Device device) {
  return at::detail::getPrivateUse1Hooks().getDefaultGenerator(device.index());
}

int32_t op_named(std::string_view name) {
  for (int32_t op = 0; spyre_op_name(op) != nullptr; ++op) {
    if (spyre_op_name(op) == name) {
      return op;
    }
  }
  TORCH_CHECK(false, "spyre: internal error, please report it: there is no op ", name);
}

std::optional<Results> call_native(int32_t op, c10::ArrayRef<c10::IValue> given,
                                   at::IntArrayRef written) {
  Arguments arguments;
  if (!arguments.take(given)) {
    return std::nullopt;
  }
  for (size_t at = 0; at < given.size(); ++at) {
    if (given[at].isGenerator()) {
      arguments.set_random(at, given[at].toGenerator());
    }
  }
  auto outcome = carry_out(op, arguments, written, kMostResults);
  if (outcome.status == SpyreStatus::Unsupported || outcome.status == SpyreStatus::Resize) {
    return std::nullopt;
  }
  check(outcome.status);
  return std::move(outcome.made);
}
} // namespace spyre
