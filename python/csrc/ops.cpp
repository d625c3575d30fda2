// Ops that the card has no program for: one boxed kernel runs them on the CPU.
#include "checks.h"
#include "decompositions.h"
#include "fallback.h"
#include "native.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace spyre {
namespace {

using at::Tensor;
using torch::jit::Stack;

bool is_spyre(const Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kSpyre;
}

// A view of a tensor in which repeated elements are there once.
Tensor once(const Tensor& tensor, at::IntArrayRef strides) {
  c10::SmallVector<int64_t, 8> sizes(tensor.sizes().begin(), tensor.sizes().end());
  bool is_repeated = false;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (strides[dim] == 0 && sizes[dim] > 1) {
      sizes[dim] = 1;
      is_repeated = true;
    }
  }
  return is_repeated ? at::as_strided(tensor, sizes, tensor.strides(), tensor.storage_offset()) : tensor;
}

// Whether a tensor's strides on the CPU would leave no great gaps.
bool is_dense_enough(const Tensor& tensor) {
  int64_t reach = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    reach += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  return reach <= 4 * tensor.numel();
}

// A tensor's memory without its conj and neg bits.
Tensor plain(const Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) {
    return tensor;
  }
  Tensor memory = tensor.alias();
  memory._set_conj(false);
  memory._set_neg(false);
  return memory;
}

// Whether elements are shared other than by being repeated.
bool has_windows(const Tensor& tensor) {
  const Tensor all = once(tensor, tensor.strides());
  return !all.is_non_overlapping_and_dense() && at::has_internal_overlap(all) != at::MemOverlap::No;
}

// A copy on the CPU with the same strides, or at least with the same elements repeated. What is only written holds
// anything.
Tensor cpu_copy(const Tensor& tensor, bool is_read) {
  const auto options = tensor.options().device(at::kCPU);
  if (tensor.numel() == 0) {
    return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  }
  const Tensor source = once(tensor, tensor.strides());
  if (!is_dense_enough(source)) {
    return source.to(at::kCPU).expand(tensor.sizes());
  }
  if (has_windows(source)) {
    // The elements that the windows show are enough: no op writes through them.
    return source.to(at::kCPU).expand(tensor.sizes());
  }
  Tensor host = at::empty_strided(source.sizes(), source.strides(), options);
  if (is_read) {
    host.copy_(source);
  }
  return at::as_strided(host, tensor.sizes(), tensor.strides());
}

// The tensors of one call, each brought to the CPU once.
class Arguments {
 public:
  // `is_read` is false for a call that only writes.
  explicit Arguments(bool is_read) : is_read_(is_read) {}

  // Takes note of a tensor before any is copied.
  void see(const Tensor& tensor, bool is_written) {
    if (!is_spyre(tensor)) {
      return;
    }
    auto& group = groups_[tensor.storage().unsafeGetStorageImpl()];
    group.is_written |= is_written;
    for (const auto& member : group.members) {
      if (member.is_same(tensor)) {
        return;
      }
    }
    group.members.push_back(tensor);
  }

  Tensor on_cpu(const Tensor& tensor) {
    if (!is_spyre(tensor)) {
      return tensor;
    }
    const auto known = copies_.find(tensor.unsafeGetTensorImpl());
    if (known != copies_.end()) {
      return known->second;
    }
    const auto& group = groups_[tensor.storage().unsafeGetStorageImpl()];
    Tensor copy = shares_memory(group) ? shared_copy(tensor, group) : cpu_copy(tensor, is_read_);
    copies_.emplace(tensor.unsafeGetTensorImpl(), copy);
    return copy;
  }

  // Brings what was written back; a tensor that was resized is so on the device.
  void write_back(const Tensor& tensor) const {
    const auto known = copies_.find(tensor.unsafeGetTensorImpl());
    if (known == copies_.end()) {
      return;
    }
    const Tensor& copy = known->second;
    if (copy.sizes() != tensor.sizes()) {
      tensor.resize_(copy.sizes());
      if (copy.strides() != tensor.strides() && copy.is_non_overlapping_and_dense()) {
        tensor.as_strided_(copy.sizes(), copy.strides());
      }
    }
    const auto row = rows_.find(tensor.storage().unsafeGetStorageImpl());
    if (row != rows_.end() && has_windows(tensor)) {
      at::as_strided(plain(tensor), row->second.sizes(), {1}, 0).copy_(row->second);
      return;
    }
    once(tensor, tensor.strides()).copy_(once(copy, tensor.strides()));
  }

 private:
  // Tensors that share a storage, of which one is written.
  struct Group {
    std::vector<Tensor> members;
    bool is_written = false;
  };

  static bool shares_memory(const Group& group) {
    if (!group.is_written || (group.members.size() < 2 && !has_windows(group.members[0]))) {
      return false;
    }
    for (const auto& member : group.members) {
      if (member.scalar_type() != group.members[0].scalar_type() || member.numel() == 0) {
        return false;
      }
    }
    return true;
  }

  // Views of one row on the CPU, as they are views of one storage.
  Tensor shared_copy(const Tensor& tensor, const Group& group) {
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    auto& row = rows_[storage];
    if (!row.defined()) {
      const auto bytes = static_cast<int64_t>(tensor.itemsize());
      const int64_t elements = static_cast<int64_t>(storage->nbytes()) / bytes;
      row = at::as_strided(plain(group.members[0]), {elements}, {1}, 0).to(at::kCPU);
    }
    Tensor view = at::as_strided(row, tensor.sizes(), tensor.strides(), tensor.storage_offset());
    view._set_conj(tensor.is_conj());
    view._set_neg(tensor.is_neg());
    return view;
  }

  bool is_read_;
  std::unordered_map<c10::StorageImpl*, Group> groups_;
  std::unordered_map<c10::StorageImpl*, Tensor> rows_;
  std::unordered_map<const c10::TensorImpl*, Tensor> copies_;
};

// Calls `act` with every tensor of a value, and whether it stands alone.
template <typename Act>
void each_tensor(const c10::IValue& value, Act act) {
  if (value.isTensor()) {
    act(value.toTensor());
  } else if (is_tensors(value)) {
    each_of(value, act);
  }
}

// Ops that take indices or arguments from the CPU as they are.
bool takes_mixed_devices(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::index", "aten::_unsafe_index", "aten::index_put", "aten::index_put_",
      "aten::_index_put_impl_", "aten::_unsafe_index_put", "aten::_index_put_impl",
      "aten::_foreach_add", "aten::_foreach_add_", "aten::_foreach_mul", "aten::_foreach_mul_",
      "aten::_foreach_div", "aten::_foreach_div_", "aten::_fused_adam_", "aten::_fused_adamw_",
      "aten::_fused_sgd_", "aten::_fused_adagrad_", "aten::_amp_foreach_non_finite_check_and_unscale_",
      "aten::_foreach_addcdiv_", "aten::_foreach_addcmul_", "aten::_foreach_addcdiv",
      "aten::_foreach_addcmul"};
  return names.count(name) != 0;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Refuses tensors of two devices, as every op does. Numbers that are tensors of the CPU may be mixed in where they
// are read.
std::optional<c10::Device> common_device(const std::string& name, c10::ArrayRef<c10::IValue> arguments,
                                         const c10::FunctionSchema* schema = nullptr) {
  std::optional<c10::Device> device;
  std::optional<c10::Device> other;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const bool is_result = schema != nullptr && is_written(schema->arguments()[at]);
    each_tensor(arguments[at], [&](const Tensor& tensor) {
      if (!tensor.defined()) {
        return;
      }
      if (is_spyre(tensor)) {
        if (device.has_value() && *device != tensor.device()) {
          other = tensor.device();
        }
        device = device.has_value() ? device : tensor.device();
      } else if (tensor.dim() > 0 || tensor.device().type() != at::kCPU || is_result) {
        other = tensor.device();
      }
    });
  }
  TORCH_CHECK(!device.has_value() || !other.has_value() || takes_mixed_devices(name),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              *device, " and ", *other, "!");
  return device;
}

// A generator for the CPU, seeded by where the device's is; that one moves on.
at::Generator cpu_generator(const at::Generator& generator) {
  auto* impl = generator.unsafeGetGeneratorImpl();
  const std::lock_guard<std::mutex> lock(impl->mutex_);
  uint64_t mixed = impl->current_seed() + 0x9E3779B97F4A7C15ULL * impl->get_offset();
  impl->set_offset(impl->get_offset() + 4);
  if (impl->get_offset() != 4) {
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    mixed ^= mixed >> 31;
  }
  return at::detail::createCPUGenerator(mixed);
}

bool is_of_host(const c10::IValue& value) {
  return value.isGenerator() && value.toGenerator().device().type() == at::kCPU;
}

// Whether a call draws from a generator of the host. The CPU's own kernel does that, since it is asked for.
bool draws_on_host(c10::ArrayRef<c10::IValue> given) {
  return std::any_of(given.begin(), given.end(), is_of_host);
}

// Whether an op fills its tensor with random numbers, whatever that held.
bool fills(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::uniform_", "aten::normal_", "aten::random_", "aten::exponential_", "aten::geometric_",
      "aten::cauchy_", "aten::log_normal_"};
  return names.count(name) != 0;
}

// While it lives, the CPU's default generator is another.
class DefaultGenerator {
 public:
  explicit DefaultGenerator(const at::Generator& replacement)
      : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_state(replacement.get_state());
  }
  ~DefaultGenerator() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }
  DefaultGenerator(const DefaultGenerator&) = delete;
  DefaultGenerator& operator=(const DefaultGenerator&) = delete;

 private:
  at::Generator generator_;
  Tensor state_;
};

bool is_random(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded);
}

// A value with its tensors, generators and devices on the CPU.
c10::IValue value_on_cpu(const c10::IValue& value, const c10::Argument& argument,
                         c10::Device device, bool& has_generator, Arguments& tensors) {
  if (value.isTensor()) {
    return tensors.on_cpu(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorList()) {
      list.push_back(tensors.on_cpu(tensor));
    }
    return list;
  }
  if (is_tensors(value)) {
    c10::List<std::optional<Tensor>> list;
    each_of(value, [&](const Tensor& tensor) {
      list.push_back(tensor.defined() ? std::optional<Tensor>(tensors.on_cpu(tensor)) : std::nullopt);
    });
    return list;
  }
  if (value.isGenerator()) {
    has_generator = true;
    const auto& generator = value.toGenerator();
    if (is_of_host(value)) {
      return value;
    }
    TORCH_CHECK(generator.device().type() == kSpyre, "Expected a 'spyre' device type for generator but found '",
                generator.device().type(), "'");
    return cpu_generator(generator);
  }
  if (value.isNone() && argument.type()->str().find("Generator") != std::string::npos) {
    has_generator = true;
    return cpu_generator(default_generator(device));
  }
  if (value.isDevice() && value.toDevice().type() == kSpyre) {
    return c10::Device(at::kCPU);
  }
  return value;
}

c10::IValue value_on_device(const c10::IValue& value, c10::Device device) {
  const auto move = [&](const Tensor& tensor) {
    return tensor.defined() && tensor.device().type() == at::kCPU ? tensor.to(device) : tensor;
  };
  if (value.isTensor()) {
    return move(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorList()) {
      list.push_back(move(tensor));
    }
    return list;
  }
  return value;
}

// A generator of the device brought tensors of the CPU here.
void refuse_foreign_tensors(c10::ArrayRef<c10::IValue> arguments) {
  for (const auto& generator : arguments) {
    for (const auto& tensor : arguments) {
      TORCH_CHECK(!generator.isGenerator() || !tensor.isTensor() || !tensor.toTensor().defined(),
                  "Expected a '", tensor.toTensor().device().type(),
                  "' device type for generator but found '", generator.toGenerator().device().type(), "'");
    }
  }
}

// Refuses view ops. Their result is an argument's own memory, which the op does not write: a copy is no view.
void refuse_views(const c10::OperatorHandle& op) {
  for (const auto& result : op.schema().returns()) {
    const auto* alias = result.alias_info();
    TORCH_CHECK_NOT_IMPLEMENTED(alias == nullptr || alias->isWrite(), "The operator '",
                                op.schema().operator_name(),
                                "' is a view, and has no implementation for spyre");
  }
}

// Whether one lies on the other, so that the CPU may refuse to write it.
bool is_shared(const Tensor& tensor, const Tensor& result, bool is_pointwise) {
  const auto status = at::get_overlap_status(tensor, result);
  return status == at::MemOverlapStatus::Partial || (status == at::MemOverlapStatus::Full && !is_pointwise);
}

// Whether a tensor that is written has memory in common with another argument, or elements in common with itself:
// the CPU says what is refused of that.
bool shares_result(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> given) {
  const auto& schema = op.schema();
  const bool is_pointwise = op.hasTag(at::Tag::pointwise);
  bool shares = false;
  for (size_t at = 0; at < given.size(); ++at) {
    if (!is_written(schema.arguments()[at]) || !given[at].isTensor() || !is_spyre(given[at].toTensor())) {
      continue;
    }
    const Tensor& result = given[at].toTensor();
    shares = shares || at::has_internal_overlap(result) == at::MemOverlap::Yes;
    for (size_t other = 0; other < given.size(); ++other) {
      each_tensor(given[other], [&](const Tensor& tensor) {
        shares = shares || (is_spyre(tensor) && other != at && is_shared(tensor, result, is_pointwise));
      });
    }
  }
  return shares;
}

} // namespace

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  const auto given = torch::jit::last(*stack, count).vec();
  const auto found = common_device(schema.name(), given, &schema);
  std::optional<c10::Device> device = found;
  for (const auto& value : given) {
    if (!device.has_value() && value.isDevice() && value.toDevice().type() == kSpyre) {
      device = device_at(value.toDevice().index());
    }
  }
  if (!device.has_value()) {
    device = device_at(-1);
  }
  if (!found.has_value()) {
    refuse_foreign_tensors(given);
  }
  refuse_views(op);
  const auto name = c10::toString(schema.operator_name());
  if (const Check check_given = check_of(std::string_view(name).substr(schema.name().find("::") + 2))) {
    check_given(given);
  }
  const bool is_hosts = draws_on_host(given);
  if (!is_hosts && !shares_result(op, given) && decompose(op, stack)) {
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "The operator '",
                              schema.operator_name(),
                              "' has no implementation for spyre, and none for the CPU, where it would be done instead");
  if (!is_hosts) {
    check(spyre_fallback(name.c_str()));
  }

  const c10::OptionalDeviceGuard guard(*device);
  Arguments tensors(!(is_hosts && fills(schema.name())));
  for (size_t at = 0; at < count; ++at) {
    const bool written = is_written(schema.arguments()[at]);
    each_tensor(given[at], [&](const Tensor& tensor) { tensors.see(tensor, written); });
  }
  bool has_generator = false;
  torch::jit::drop(*stack, count);
  for (size_t at = 0; at < count; ++at) {
    stack->push_back(value_on_cpu(given[at], schema.arguments()[at], *device, has_generator, tensors));
  }
  {
    std::optional<DefaultGenerator> replaced;
    if (!has_generator && is_random(op)) {
      replaced.emplace(cpu_generator(default_generator(*device)));
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  for (size_t at = 0; at < count; ++at) {
    if (is_written(schema.arguments()[at])) {
      each_tensor(given[at], [&](const Tensor& tensor) {
        if (tensor.defined()) {
          tensors.write_back(tensor);
        }
      });
    }
  }

  const auto results = schema.returns().size();
  const auto values = torch::jit::last(*stack, results).vec();
  torch::jit::drop(*stack, results);
  for (size_t at = 0; at < results; ++at) {
    const auto* alias = schema.returns()[at].alias_info();
    c10::IValue result;
    if (alias != nullptr && alias->isWrite()) {
      // It is the argument of the same name.
      for (size_t from = 0; from < count; ++from) {
        const auto* info = schema.arguments()[from].alias_info();
        if (info != nullptr && *info == *alias) {
          result = given[from];
          break;
        }
      }
    }
    stack->push_back(result.isNone() ? value_on_device(values[at], *device) : std::move(result));
  }
}

namespace {

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                   c10::SymIntArrayRef dilation, bool transposed,
                   c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const c10::IValue arguments[] = {input, weight, bias.value_or(Tensor())};
  const auto device = common_device("aten::convolution", arguments);
  check(spyre_fallback("aten::convolution_overrideable"));
  std::optional<Tensor> cpu_bias;
  if (bias.has_value() && bias->defined()) {
    cpu_bias = bias->to(at::kCPU);
  }
  return at::convolution_symint(input.to(at::kCPU), weight.to(at::kCPU), cpu_bias, stride, padding,
                                dilation, transposed, output_padding, std::move(groups))
      .to(*device);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups, std::array<bool, 3> mask) {
  check(spyre_fallback("aten::convolution_backward_overrideable"));
  c10::SymInt channels = grad.sym_size(1);
  const c10::SymIntArrayRef bias_sizes(&channels, 1);
  auto results = at::convolution_backward_symint(
      grad.to(at::kCPU), input.to(at::kCPU), weight.to(at::kCPU), bias_sizes, stride, padding,
      dilation, transposed, output_padding, std::move(groups), mask);
  const auto back = [&](const Tensor& tensor) {
    return tensor.defined() ? tensor.to(grad.device()) : tensor;
  };
  return {back(std::get<0>(results)), back(std::get<1>(results)), back(std::get<2>(results))};
}

void convolution_fallback(const c10::OperatorHandle& op, Stack* stack) {
  static const auto kernel = c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(convolution));
  kernel.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

void convolution_backward_fallback(const c10::OperatorHandle& op, Stack* stack) {
  static const auto kernel =
      c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(convolution_backward));
  kernel.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

// Cells of recurrent networks: PyTorch has them fused for accelerators only, and in parts for the CPU.

// Parts of one width, side by side: a caller may give anything.
std::vector<Tensor> side_by_side(const Tensor& gates, int64_t count) {
  TORCH_CHECK(gates.dim() == 2 && gates.size(1) % count == 0, "expected a matrix of ", count,
              " parts side by side, but got sizes ", gates.sizes());
  return gates.chunk(count, 1);
}

Tensor gates_of(const Tensor& input, const Tensor& hidden, const std::optional<Tensor>& input_bias,
                const std::optional<Tensor>& hidden_bias) {
  Tensor gates = input + hidden;
  if (input_bias.has_value() && input_bias->defined()) {
    gates = gates + *input_bias + *hidden_bias;
  }
  return gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cell, const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
  const auto gates = side_by_side(gates_of(input_gates, hidden_gates, input_bias, hidden_bias), 4);
  const Tensor in = gates[0].sigmoid();
  const Tensor forget = gates[1].sigmoid();
  const Tensor next = gates[2].tanh();
  const Tensor out = gates[3].sigmoid();
  const Tensor new_cell = forget * cell + in * next;
  return {out * new_cell.tanh(), new_cell, at::cat({in, forget, next, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const std::optional<Tensor>& grad_hidden,
                                                      const std::optional<Tensor>& grad_cell,
                                                      const Tensor& cell, const Tensor& new_cell,
                                                      const Tensor& workspace, bool has_bias) {
  const auto gates = side_by_side(workspace, 4);
  const Tensor& in = gates[0];
  const Tensor& forget = gates[1];
  const Tensor& next = gates[2];
  const Tensor& out = gates[3];
  const Tensor squashed = new_cell.tanh();
  const bool has_hidden = grad_hidden.has_value() && grad_hidden->defined();
  const bool has_cell = grad_cell.has_value() && grad_cell->defined();
  if (!has_hidden && !has_cell) {
    return {};
  }
  const Tensor from_hidden = has_hidden ? *grad_hidden : at::zeros_like(new_cell);
  Tensor to_cell = from_hidden * out * (1 - squashed * squashed);
  if (has_cell) {
    to_cell = to_cell + *grad_cell;
  }
  const Tensor grad_gates = at::cat({to_cell * next * in * (1 - in), to_cell * cell * forget * (1 - forget),
                                     to_cell * in * (1 - next * next),
                                     from_hidden * squashed * out * (1 - out)},
                                    1);
  return {grad_gates, to_cell * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hidden, const std::optional<Tensor>& input_bias,
                                    const std::optional<Tensor>& hidden_bias) {
  const bool has_bias = input_bias.has_value() && input_bias->defined();
  const auto input = side_by_side(has_bias ? input_gates + *input_bias : input_gates, 3);
  const auto gates = side_by_side(has_bias ? hidden_gates + *hidden_bias : hidden_gates, 3);
  const Tensor reset = (input[0] + gates[0]).sigmoid();
  const Tensor update = (input[1] + gates[1]).sigmoid();
  const Tensor next = (input[2] + reset * gates[2]).tanh();
  return {next + update * (hidden - next), at::cat({reset, update, next, hidden, gates[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const auto kept = side_by_side(workspace, 5);
  const Tensor& reset = kept[0];
  const Tensor& update = kept[1];
  const Tensor& next = kept[2];
  const Tensor& hidden = kept[3];
  const Tensor& gate = kept[4];
  const Tensor to_update = grad * (hidden - next) * (1 - update) * update;
  const Tensor to_next = grad * (1 - update) * (1 - next * next);
  const Tensor to_reset = to_next * gate * (1 - reset) * reset;
  const Tensor to_input = at::cat({to_reset, to_update, to_next}, 1);
  const Tensor to_hidden = at::cat({to_reset, to_update, to_next * reset}, 1);
  return {to_input, to_hidden, grad * update, has_bias ? to_input.sum(0) : Tensor(),
          has_bias ? to_hidden.sum(0) : Tensor()};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// These have a decomposition that would be taken instead: the CPU's own kernels round less.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"addr", "addr.out", "linalg__powsum"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
}

// PyTorch's own functions for all devices read or write these at their address, which is not the host's, or ask for
// one of the devices that they know.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"_saturate_weight_to_fp16", "choose_qparams_optimized", "mode.values", "range.out_"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

} // namespace

Fallback fallback_of(const char* op) {
  const std::string_view name(op);
  if (name == "convolution_overrideable") {
    return convolution_fallback;
  }
  return name == "convolution_backward_overrideable" ? convolution_backward_fallback : fallback;
}

} // namespace spyre
