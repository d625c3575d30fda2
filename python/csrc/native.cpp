// Ops that the card has kernels for: one boxed kernel hands each call to the Rust side.
#include "native.h"

#include "elsewhere.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>

namespace spyre {
namespace {

using at::Tensor;
using torch::jit::Stack;

// Results of one op.
constexpr int64_t kMostResults = 8;

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

 private:
  // Views are pointed to: they may not move when more come.
  static size_t count_tensors(c10::ArrayRef<c10::IValue> values) {
    size_t count = 0;
    for (const auto& value : values) {
      if (value.isTensor()) {
        ++count;
      } else if (value.isTensorList()) {
        count += value.toTensorList().size();
      } else if (value.isOptionalTensorList()) {
        count += value.toOptionalTensorList().size();
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
      argument.kind = SPYRE_NONE;
    } else if (value.isInt()) {
      set_whole(argument, SPYRE_WHOLE, value.toInt());
    } else if (value.isDouble()) {
      set_float(argument, value.toDouble(), 0);
    } else if (value.isBool()) {
      set_whole(argument, SPYRE_TRUTH, value.toBool());
    } else if (value.isComplexDouble()) {
      const auto number = value.toComplexDouble();
      set_float(argument, number.real(), number.imag());
    } else if (value.isString()) {
      argument.kind = SPYRE_TEXT;
      argument.list = value.toStringRef().c_str();
    } else if (value.isIntList()) {
      const auto& list = numbers_.emplace_back(value.toIntVector());
      set_list(argument, SPYRE_WHOLES, list.data(), list.size());
    } else if (value.isDoubleList()) {
      const auto& list = floats_.emplace_back(value.toDoubleVector());
      set_list(argument, SPYRE_FLOATS, list.data(), list.size());
    } else if (value.isBoolList()) {
      const auto list = value.toBoolList();
      auto& truths = truths_.emplace_back(new bool[list.size()]);
      std::copy(list.begin(), list.end(), truths.get());
      set_list(argument, SPYRE_TRUTHS, truths.get(), list.size());
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      return take_tensors(value, argument);
    } else if (!value.isDevice() && !value.isGenerator()) {
      return false;
    }
    arguments_.push_back(argument);
    return true;
  }

  static void set_whole(SpyreArgument& argument, int32_t kind, int64_t value) {
    argument.kind = kind;
    argument.whole = value;
  }

  static void set_float(SpyreArgument& argument, double real, double imaginary) {
    argument.kind = SPYRE_FLOAT;
    argument.real = real;
    argument.imaginary = imaginary;
  }

  static void set_list(SpyreArgument& argument, int32_t kind, const void* list, size_t count) {
    argument.kind = kind;
    argument.list = list;
    argument.count = static_cast<int64_t>(count);
  }

  bool take_tensor(const Tensor& tensor, SpyreArgument& argument) {
    if (!tensor.defined()) {
      argument.kind = SPYRE_NONE;
    } else if (tensor.device().type() == kSpyre) {
      if (!see_device(tensor)) {
        return false;
      }
      views_.push_back(view_of(tensor));
      set_list(argument, SPYRE_TENSOR, &views_.back(), 1);
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
      set_whole(argument, SPYRE_TRUTH, number.toBool());
    } else if (number.isIntegral(false)) {
      set_whole(argument, SPYRE_WHOLE, number.toLong());
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
    if (value.isTensorList()) {
      for (const Tensor& tensor : value.toTensorList()) {
        if (!take(tensor)) {
          return false;
        }
      }
    } else {
      for (const std::optional<Tensor>& tensor : value.toOptionalTensorList()) {
        if (!take(tensor.value_or(Tensor()))) {
          return false;
        }
      }
    }
    set_list(argument, SPYRE_TENSORS, views_.data() + first, views_.size() - first);
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
  c10::SmallVector<std::unique_ptr<bool[]>, 1> truths_;
  std::optional<c10::Device> device_;
};

class NativeKernel final : public c10::OperatorKernel {
 public:
  explicit NativeKernel(int32_t op) : op_(op), elsewhere_(elsewhere(spyre_op_name(op))) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (!run(op, stack)) {
      elsewhere_(op, stack);
    }
  }

 private:
  // Whether there is a kernel for it. A result of another shape is given that first, once.
  bool run(const c10::OperatorHandle& op, Stack* stack, bool may_resize = true) {
    const auto& schema = op.schema();
    const auto count = schema.arguments().size();
    const auto given = torch::jit::last(*stack, count);
    Arguments arguments;
    if (!arguments.take(given)) {
      return false;
    }
    const auto& written = written_arguments(schema);
    const SpyreCall call{op_,
                         arguments.device().index(),
                         arguments.list().data(),
                         static_cast<int64_t>(count),
                         written.data(),
                         static_cast<int64_t>(written.size()),
                         static_cast<int32_t>(c10::get_default_dtype_as_scalartype())};
    SpyreResult results[kMostResults];
    int64_t result_count = 0;
    int32_t status = spyre_call(&call, results, &result_count);
    c10::SmallVector<Tensor, 2> made;
    if (status == SPYRE_OK && result_count > 0) {
      status = make_results(call, results, result_count, made);
    }
    if (status == SPYRE_RESIZE && may_resize) {
      const std::vector<int64_t> sizes(results[0].sizes, results[0].sizes + results[0].dim);
      for (const int64_t at : written) {
        at::native::resize_output(given[at].toTensor(), sizes);
      }
      return run(op, stack, false);
    }
    if (status == SPYRE_ELSEWHERE || status == SPYRE_RESIZE) {
      return false;
    }
    check(status);
    for (const int64_t at : written) {
      made.push_back(given[at].toTensor());
    }
    leave_out(schema, given, made);
    torch::jit::drop(*stack, count);
    const auto returned = schema.returns().size();
    for (size_t at = 0; at < returned && at < made.size(); ++at) {
      stack->emplace_back(std::move(made[at]));
    }
    return true;
  }

  // Gradients that nobody asks for are no tensors.
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

  static int32_t make_results(const SpyreCall& call, const SpyreResult* results, int64_t count,
                              c10::SmallVector<Tensor, 2>& made) {
    const auto device = c10::Device(kSpyre, static_cast<c10::DeviceIndex>(call.device));
    c10::SmallVector<SpyreView, 2> views;
    for (int64_t at = 0; at < count; ++at) {
      const SpyreResult& result = results[at];
      const auto options =
          at::TensorOptions().dtype(static_cast<at::ScalarType>(result.dtype)).device(device);
      made.push_back(at::empty_strided(at::IntArrayRef(result.sizes, result.dim),
                                       at::IntArrayRef(result.strides, result.dim), options));
    }
    for (const Tensor& tensor : made) {
      views.push_back(view_of(tensor));
    }
    const int32_t status = spyre_call_with(&call, views.data(), count);
    if (status != SPYRE_OK) {
      made.clear();
    }
    return status;
  }

  // The schema of an op is always the same.
  const c10::SmallVector<int64_t, 2>& written_arguments(const c10::FunctionSchema& schema) {
    std::call_once(once_, [&] {
      const auto& arguments = schema.arguments();
      for (size_t at = 0; at < arguments.size(); ++at) {
        const auto* alias = arguments[at].alias_info();
        if (alias != nullptr && alias->isWrite()) {
          written_.push_back(static_cast<int64_t>(at));
        }
      }
    });
    return written_;
  }

  int32_t op_;
  Elsewhere elsewhere_;
  std::once_flag once_;
  c10::SmallVector<int64_t, 2> written_;
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (int32_t op = 0; spyre_op_name(op) != nullptr; ++op) {
    m.impl(spyre_op_name(op),
           torch::CppFunction::makeFromBoxedFunctor(std::make_unique<NativeKernel>(op)));
  }
}

} // namespace
} // namespace spyre
