// Ops that are carried out as other ops: functions of Python, which are found when they are first needed.
#include "decompositions.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace spyre {
namespace {

// The functions are kernels of a key that no tensor has, so PyTorch brings arguments there and results back.
constexpr c10::DispatchKey kDecompositions = c10::DispatchKey::PrivateUse3;

// The ops that the calling thread is decomposing, from the outermost.
thread_local std::vector<c10::OperatorName> decomposing;

class Decomposing {
 public:
  explicit Decomposing(const c10::OperatorName& name) {
    decomposing.push_back(name);
  }
  ~Decomposing() {
    decomposing.pop_back();
  }
  Decomposing(const Decomposing&) = delete;
  Decomposing& operator=(const Decomposing&) = delete;
};

bool is_decomposed(const c10::OperatorHandle& op) {
  const bool has_cpu = op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  bool has = false;
  check(spyre_has_decomposition(c10::toString(op.operator_name()).c_str(), has_cpu, &has));
  return has;
}

} // namespace

bool decompose(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack) {
  const auto& name = op.operator_name();
  if (std::find(decomposing.begin(), decomposing.end(), name) != decomposing.end() || !is_decomposed(op)) {
    return false;
  }
  const Decomposing guard(name);
  op.redispatchBoxed(c10::DispatchKeySet(kDecompositions), stack);
  return true;
}

} // namespace spyre
