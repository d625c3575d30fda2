// Launches of plans that were saved to folders.
#include "spyre.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <torch/library.h>

namespace spyre {
namespace {

using at::Tensor;

struct Drop {
  void operator()(SpyrePlan* plan) const {
    spyre_plan_drop(plan);
  }
};

// The device of all tensors; without any, the current one.
c10::Device device_of(at::TensorList tensors) {
  if (tensors.empty()) {
    return device_at(-1);
  }
  const c10::Device first = tensors[0].device();
  for (const Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.device() == first,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                first, " and ", tensor.device(), "!");
    TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(),
                "a kernel sees what lies in memory: call resolve_conj() and resolve_neg() first");
  }
  TORCH_CHECK(first.type() == kSpyre, "Expected all tensors to be on spyre, but found ", first);
  return first;
}

void launch(const std::string& folder, int64_t number, at::TensorList tensors,
            at::IntArrayRef scalars, const std::string& file, int64_t line) {
  const c10::Device device = device_of(tensors);
  SpyrePlan* found = nullptr;
  check(spyre_find_plan(number, folder.c_str(), device.index(), &found));
  const std::unique_ptr<SpyrePlan, Drop> plan(found);
  at::RecordFunction record(at::RecordScope::FUNCTION);
  if (C10_UNLIKELY(record.isActive())) {
    record.before(std::string("launch_kernel:") + spyre_plan_name(found));
  }
  c10::SmallVector<SpyreView, 8> views;
  for (const Tensor& tensor : tensors) {
    views.push_back(view_of(tensor));
  }
  c10::SmallVector<uint8_t, 8> written(tensors.size(), 0);
  const SpyreLaunch given{views.data(),
                          written.data(),
                          static_cast<int64_t>(views.size()),
                          reinterpret_cast<const uint64_t*>(scalars.data()),
                          static_cast<int64_t>(scalars.size()),
                          file.c_str(),
                          line};
  check(spyre_launch(found, &given));
  for (size_t at = 0; at < written.size(); ++at) {
    if (written[at] != 0 && !tensors[at].is_inference()) {
      tensors[at].unsafeGetTensorImpl()->bump_version();
    }
  }
}

// A number under which Python takes the tensor as plans know it.
int64_t hand_tensor(const Tensor& tensor) {
  device_of(tensor);
  const SpyreView view = view_of(tensor);
  int64_t number = 0;
  check(spyre_hand_tensor(&view, &number));
  return number;
}

TORCH_LIBRARY_FRAGMENT(spyre, m) {
  m.def("_hand_tensor(Tensor tensor) -> int", TORCH_FN(hand_tensor));
  m.def("_launch(str folder, int plan, Tensor(a!)[] tensors, int[] scalars, str file, int line) -> ()",
        TORCH_FN(launch));
}

} // namespace
} // namespace spyre
