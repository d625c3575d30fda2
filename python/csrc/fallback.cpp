// Ops that the card has no program for: one boxed kernel runs them on the CPU.
#include "fallback.h"

#include "checks.h"
#include "decompositions.h"
#include "native.h"
#include "operators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_map>

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

bool is_sparse(const Tensor& tensor) {
  return tensor.defined() && tensor.layout() != at::kStrided;
}

// A copy whose parts lie row by row: kernels of the CPU rely on that.
Tensor sparse_copy(const Tensor& tensor) {
  if (!tensor.is_sparse()) {
    return tensor.to(at::kCPU);
  }
  const Tensor values = tensor._values().to(at::kCPU).contiguous();
  return at::_sparse_coo_tensor_unsafe(tensor._indices().to(at::kCPU).contiguous(), values, tensor.sizes(),
                                       values.options().layout(at::kSparse), tensor.is_coalesced());
}

// Gives a sparse tensor what its copy on the CPU holds now.
void write_sparse(const Tensor& tensor, const Tensor& copy) {
  if (!tensor.is_sparse()) {
    const auto* moved = at::sparse_csr::get_sparse_csr_impl(copy);
    at::sparse_csr::get_sparse_csr_impl(tensor)->set_member_tensors(
        moved->compressed_indices().to(tensor.device()), moved->plain_indices().to(tensor.device()),
        moved->values().to(tensor.device()), copy.sizes());
    return;
  }
  const Tensor moved = copy.to(tensor.device());
  auto* impl = at::sparse::get_sparse_impl(tensor);
  impl->raw_resize_(copy.sparse_dim(), copy.dense_dim(), copy.sizes());
  impl->set_indices_and_values_unsafe(moved._indices(), moved._values());
  impl->set_coalesced(copy.is_coalesced());
}

// The tensors of one call, each brought to the CPU once.
class Arguments {
 public:
  // `is_read` is false for a call that only writes.
  explicit Arguments(bool is_read) : is_read_(is_read) {}

  // Takes note of a tensor before any is copied.
  void see(const Tensor& tensor, bool is_written) {
    if (!is_spyre(tensor) || is_sparse(tensor)) {
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
    const Tensor copy = is_sparse(tensor) ? sparse_copy(tensor) : dense_copy(tensor);
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
    if (is_sparse(tensor)) {
      write_sparse(tensor, copy);
      return;
    }
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

  Tensor dense_copy(const Tensor& tensor) {
    const auto& group = groups_[tensor.storage().unsafeGetStorageImpl()];
    return shares_memory(group) ? shared_copy(tensor, group) : cpu_copy(tensor, is_read_);
  }

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
  TORCH_CHECK(!device.has_value() || !other.has_value() || has_flag(name, SpyreFlag::MixedDevices),
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
void refuse_views(const c10::OperatorHandle& op, const char* tensors) {
  for (const auto& result : op.schema().returns()) {
    const auto* alias = result.alias_info();
    TORCH_CHECK_NOT_IMPLEMENTED(alias == nullptr || alias->isWrite(), "The operator '",
                                op.schema().operator_name(),
                                "' is a view, and has no implementation for ", tensors);
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

// The device of a call: that of its tensors, the one that it names, or the current one.
c10::Device device_for(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> given) {
  if (const auto found = common_device(schema.name(), given, &schema)) {
    return *found;
  }
  refuse_foreign_tensors(given);
  for (const auto& value : given) {
    if (value.isDevice() && value.toDevice().type() == kSpyre) {
      return device_at(value.toDevice().index());
    }
  }
  return device_at(-1);
}

// PyTorch has two names for a convolution, and the CPU has one of them. The gradient's takes the length of a bias, too.
bool convolve(const c10::OperatorHandle& op, Stack* stack) {
  const auto& name = op.schema().name();
  const bool is_backward = name == "aten::convolution_backward_overrideable";
  if (!is_backward && name != "aten::convolution_overrideable") {
    return false;
  }
  if (is_backward) {
    const auto first = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
    stack->insert(first + 3, c10::IValue(std::vector<int64_t>{first->toTensor().size(1)}));
  }
  c10::Dispatcher::singleton()
      .findSchemaOrThrow(is_backward ? "aten::convolution_backward" : "aten::convolution", "")
      .callBoxed(stack);
  return true;
}

void call_sparse(const c10::OperatorHandle& op, Stack* stack) {
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", op.schema().operator_name(),
                                "' has no implementation for sparse tensors on spyre, and none on the CPU: use "
                                "to_dense(), or work on values() and indices()");
  }
}

// Functions that a program has registered are kernels of a key that no tensor has.
constexpr c10::DispatchKey kRegistered = c10::DispatchKey::PrivateUse2;

// Calls an op with tensors of the CPU: a program's own function, or the CPU's kernel.
void call_kernel(const c10::OperatorHandle& op, Stack* stack, bool is_for_sparse) {
  if (op.hasKernelForDispatchKey(kRegistered)) {
    op.redispatchBoxed(c10::DispatchKeySet(kRegistered), stack);
  } else if (is_for_sparse) {
    call_sparse(op, stack);
  } else if (!convolve(op, stack)) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
}

// The results of a call as its caller gets them: those that were written are arguments, of the same alias.
void push_results(const c10::FunctionSchema& schema, const Stack& given, c10::Device device, Stack* stack) {
  const auto count = schema.returns().size();
  const auto values = torch::jit::pop(*stack, count);
  for (size_t at = 0; at < count; ++at) {
    const auto* alias = schema.returns()[at].alias_info();
    c10::IValue result;
    for (size_t from = 0; alias != nullptr && alias->isWrite() && from < given.size(); ++from) {
      const auto* info = schema.arguments()[from].alias_info();
      if (info != nullptr && *info == *alias) {
        result = given[from];
        break;
      }
    }
    stack->push_back(result.isNone() ? value_on_device(values[at], device) : std::move(result));
  }
}

// Carries a call out on copies of its tensors, which are copied back where they are written. Without `is_read`
// they are only written.
void run_on_cpu(const c10::OperatorHandle& op, Stack* stack, c10::Device device, bool is_read, bool is_for_sparse) {
  const auto& schema = op.schema();
  const auto given = torch::jit::pop(*stack, schema.arguments().size());
  const c10::OptionalDeviceGuard guard(device);
  Arguments tensors(is_read);
  for (size_t at = 0; at < given.size(); ++at) {
    const bool written = is_written(schema.arguments()[at]);
    each_tensor(given[at], [&](const Tensor& tensor) { tensors.see(tensor, written); });
  }
  bool has_generator = false;
  for (size_t at = 0; at < given.size(); ++at) {
    stack->push_back(value_on_cpu(given[at], schema.arguments()[at], device, has_generator, tensors));
  }
  {
    std::optional<DefaultGenerator> replaced;
    if (!has_generator && is_random(op)) {
      replaced.emplace(cpu_generator(default_generator(device)));
    }
    call_kernel(op, stack, is_for_sparse);
  }
  for (size_t at = 0; at < given.size(); ++at) {
    if (is_written(schema.arguments()[at])) {
      each_tensor(given[at], [&](const Tensor& tensor) {
        if (tensor.defined()) {
          tensors.write_back(tensor);
        }
      });
    }
  }
  push_results(schema, given, device, stack);
}

// The CPU is the only way: a program has asked for it, or the tensors are sparse.
void only_on_cpu(const c10::OperatorHandle& op, Stack* stack, bool is_for_sparse) {
  const auto& schema = op.schema();
  const auto device = device_for(schema, torch::jit::last(*stack, schema.arguments().size()));
  check(spyre_fallback(c10::toString(schema.operator_name()).c_str()));
  run_on_cpu(op, stack, device, true, is_for_sparse);
}

void registered_fallback(const c10::OperatorHandle& op, Stack* stack) {
  only_on_cpu(op, stack, false);
}

} // namespace

void sparse_fallback(const c10::OperatorHandle& op, Stack* stack) {
  refuse_views(op, "sparse tensors on spyre");
  only_on_cpu(op, stack, true);
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const auto given = torch::jit::last(*stack, schema.arguments().size());
  const auto device = device_for(schema, given);
  refuse_views(op, "spyre");
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
  run_on_cpu(op, stack, device, !(is_hosts && has_flag(name, SpyreFlag::Fills)), false);
}

namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  each_flagged(SpyreFlag::Replaced, [&](const char* op) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  });
}

} // namespace

Fallback fallback_of(const char*) {
  return fallback;
}

} // namespace spyre

// Has the CPU carry an op out in place of the device's kernels: by the function that a program has registered at the
// key PrivateUse2, or by the CPU's own kernel. The Rust side calls it, with Python's lock held.
extern "C" bool spyre_register_fallback(const char* space, const char* op) {
  // Python's lock is held. A library that is dropped takes its kernels along, so these stay to the end.
  static auto& libraries = *new std::vector<std::unique_ptr<torch::Library>>;
  struct Quiet : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  try {
    // That a kernel is replaced is what is asked for.
    Quiet quiet;
    const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
    libraries.push_back(std::make_unique<torch::Library>(torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1,
                                                         __FILE__, __LINE__));
    libraries.back()->impl(op, torch::CppFunction::makeFromBoxedFunction<&spyre::registered_fallback>());
    return true;
  } catch (...) {
    return false;
  }
}
