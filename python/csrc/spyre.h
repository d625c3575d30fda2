// What the shim shares: the C functions of the Rust side, and how their errors become exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "spyre_abi.h"

extern "C" {

// Runs an empty backward pass, which the Rust side calls for at exit.
void spyre_flush_autograd(int32_t device);

// Tracebacks, which the shim has and the Rust side calls for: opaque, null if there is none.
using SpyreFrame = void (*)(void* context, const char* file, const char* name, uint64_t line);
using SpyreFrameOf = void (*)(void* context, size_t traceback, uint64_t frame);
// Frames of Python take the interpreter's lock: who may not wait for it gets none, unless it is held.
void* spyre_traceback_gather(int32_t with_cpp, int32_t may_wait) noexcept;
void spyre_traceback_drop(void* traceback) noexcept;
int32_t spyre_traceback_symbolize(void* const* tracebacks, size_t count, void* context,
                                  SpyreFrame frame, SpyreFrameOf frame_of) noexcept;

// Launches of compiled graphs: see graph.cpp. The interpreter's lock is held.
struct _object;
const char* spyre_graph_view(_object* object, bool is_written, SpyreView* view, int32_t* device) noexcept;
_object* spyre_graph_result(int32_t device, const SpyreResult* result) noexcept;
void* spyre_graph_begin(const char* name) noexcept;
void spyre_graph_end(void* record) noexcept;
}

#ifdef __cplusplus
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <optional>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
class OperatorHandle;
struct IValue;
} // namespace c10

namespace spyre {

constexpr c10::DeviceType kSpyre = c10::DeviceType::PrivateUse1;

// Throws what a status stands for.
[[noreturn]] void raise(SpyreStatus status);
[[noreturn]] void raise_interrupt();

inline void check(SpyreStatus status) {
  if (C10_UNLIKELY(status != SpyreStatus::Ok)) {
    raise(status);
  }
}

// The device of this index; -1 is the current one.
c10::Device device_at(c10::DeviceIndex index);

inline c10::DeviceIndex index_of(c10::Device device) {
  return device.index() < 0 ? static_cast<c10::DeviceIndex>(spyre_current_device())
                            : device.index();
}

// A count of an `Arc` of the Rust side.
class LayoutRef {
 public:
  LayoutRef() = default;
  explicit LayoutRef(LayoutPointer owned) : layout_(owned) {}
  LayoutRef(const LayoutRef& other) : layout_(spyre_layout_clone(other.layout_)) {}
  LayoutRef(LayoutRef&& other) noexcept : layout_(other.layout_) {
    other.layout_ = nullptr;
  }
  LayoutRef& operator=(LayoutRef other) noexcept {
    std::swap(layout_, other.layout_);
    return *this;
  }
  ~LayoutRef() {
    if (layout_ != nullptr) {
      spyre_layout_drop(layout_);
    }
  }
  LayoutPointer get() const {
    return layout_;
  }

 private:
  LayoutPointer layout_ = nullptr;
};

// A storage of the device: its bytes are the host's, its memory is the Rust side's.
struct SpyreStorageImpl final : c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;
};

// A tensor of the device. It may have a layout of its own, in place of the one that came with its
// memory. Plain TensorImpls are as good: many views are.
struct SpyreTensorImpl final : c10::TensorImpl {
  SpyreTensorImpl(c10::Storage&& storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype);

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version, bool allow_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version, bool allow_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;
  const char* tensorimpl_type_name() const override;

  LayoutRef layout;
};

// A tensor as the Rust side sees it; it points into the tensor.
SpyreView view_of(const at::Tensor& tensor);

// Device memory as a storage: some that was allocated, or new.
c10::Storage storage_of(c10::DeviceIndex device, int64_t host_bytes, const SpyreMemory& memory);
c10::Storage new_storage(c10::DeviceIndex device, int64_t host_bytes, const SpyreView* view);
c10::Storage storage_with_layout(c10::DeviceIndex device, int64_t host_bytes, LayoutPointer layout);

// A tensor that a call has made.
at::Tensor tensor_of(c10::DeviceIndex device, const SpyreResult& result);

// Gives a storage another length. Its bytes stay, as far as they go; new memory is laid out for
// `view`, or as it was.
void resize_storage(c10::StorageImpl* storage, int64_t host_bytes, const SpyreView* view);

// The allocator that storages name.
c10::Allocator* allocator();

// Carries an op out on the CPU.
void fallback(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

} // namespace spyre
#endif
