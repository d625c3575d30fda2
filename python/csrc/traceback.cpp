// Where memory was taken: PyTorch's own tracebacks, as opaque pointers that the history keeps.

#include <memory>
#include <vector>

#include <torch/csrc/profiler/combined_traceback.h>

#include "spyre.h"

extern "C" int Py_IsInitialized();
extern "C" int PyGILState_Check();

namespace {

using Traceback = std::shared_ptr<torch::CapturedTraceback>;

} // namespace

extern "C" void* spyre_traceback_gather(int32_t with_cpp, int32_t may_wait) noexcept {
  if (Py_IsInitialized() == 0 || (may_wait == 0 && PyGILState_Check() == 0)) {
    return nullptr;
  }
  try {
    auto traceback = torch::CapturedTraceback::gather(
        /*python=*/true, /*script=*/false, /*cpp=*/with_cpp != 0);
    return traceback ? new Traceback(std::move(traceback)) : nullptr;
  } catch (...) {
    return nullptr;
  }
}

extern "C" void spyre_traceback_drop(void* traceback) noexcept {
  delete static_cast<Traceback*>(traceback);
}

extern "C" int32_t spyre_traceback_symbolize(
    void* const* tracebacks,
    size_t count,
    void* context,
    SpyreFrame frame,
    SpyreFrameOf frame_of) noexcept {
  try {
    std::vector<torch::CapturedTraceback*> gathered;
    for (size_t i = 0; i < count; ++i) {
      gathered.push_back(static_cast<Traceback*>(tracebacks[i])->get());
    }
    const auto symbolized = torch::symbolize(gathered);
    for (const auto& found : symbolized.all_frames) {
      frame(context, found.filename.c_str(), found.funcname.c_str(), found.lineno);
    }
    for (size_t i = 0; i < symbolized.tracebacks.size(); ++i) {
      for (const auto index : symbolized.tracebacks[i]) {
        frame_of(context, i, index);
      }
    }
    return 0;
  } catch (...) {
    return 1;
  }
}
