// What the shim shares: the C functions of the Rust side, and how their errors become exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Every function that can fail returns one of these; the message is the calling thread's last.
enum SpyreStatus : int32_t {
  SPYRE_OK = 0,
  SPYRE_RUNTIME = 1,
  SPYRE_OUT_OF_MEMORY = 2,
  SPYRE_INDEX = 3,
  SPYRE_VALUE = 4,
  SPYRE_NOT_IMPLEMENTED = 5,
  SPYRE_TYPE = 6,
  // Not an error: the caller is to go another way.
  SPYRE_UNSUPPORTED = 7,
  // A signal's handler has raised an exception, which the Rust side holds.
  SPYRE_INTERRUPTED = 9,
};

enum SpyreMemoryKind : int32_t { SPYRE_HOST = 0, SPYRE_PINNED = 1, SPYRE_DEVICE = 2 };

// A tensor. On the host `data` is its first element and `offset` zero; on the device `data` is the
// storage's address and `offset` counts elements from there.
struct SpyreView {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t dim;
  int64_t offset;
  const void* layout;
  int32_t dtype;
  int32_t place;
};

struct SpyreStat {
  int64_t current;
  int64_t peak;
  int64_t allocated;
  int64_t freed;
};

struct SpyrePools {
  SpyreStat all;
  SpyreStat small;
  SpyreStat large;
};

struct SpyreStats {
  SpyrePools allocation;
  SpyrePools allocated_bytes;
  SpyrePools requested_bytes;
  SpyrePools reserved_bytes;
  SpyreStat segment;
  int64_t inactive_bytes;
  int64_t inactive_blocks;
  int64_t retries;
  int64_t ooms;
};

const char* spyre_message();
// Makes the exception that ended the calling thread's wait the interpreter's current one.
void spyre_restore_interrupt();
// Devices. A count never fails; -1 stands for the calling thread's current device.
int32_t spyre_device_count();
int32_t spyre_is_started();
int32_t spyre_current_device();
void spyre_set_current_device_unchecked(int32_t device);
int32_t spyre_set_current_device(int32_t device);
int32_t spyre_synchronize_device(int32_t device);
int32_t spyre_is_card_profile();
int32_t spyre_warns_of_downcasts();
// Memory. `view` may be null: bytes of no dtype. Zero bytes have no address.
int32_t spyre_allocate(int32_t device, const SpyreView* view, int64_t host_bytes, void** data,
                       int64_t* device_bytes);
int64_t spyre_free(void* data);
int32_t spyre_device_of(const void* data);
int32_t spyre_record_stream(const void* data, int32_t device, int64_t stream);
int32_t spyre_stats(int32_t device, SpyreStats* stats);
int32_t spyre_reset_peak_stats(int32_t device);
int32_t spyre_reset_accumulated_stats(int32_t device);
int32_t spyre_memory_info(int32_t device, int64_t* free_bytes, int64_t* total_bytes);
int32_t spyre_empty_cache();
// A storage of another length, with the same bytes as far as they go. Elements keep their dtype.
int32_t spyre_resize(const void* data, int64_t kept_bytes, const SpyreView* view,
                     int64_t host_bytes, void** resized, int64_t* device_bytes);
int32_t spyre_adopt(const SpyreView* view, int64_t host_bytes);
// Layouts are reference-counted.
const void* spyre_layout_clone(const void* layout);
void spyre_layout_drop(const void* layout);
// Layouts that a program chooses come by number, and are taken for a tensor's shape.
int32_t spyre_take_layout(int64_t number, const SpyreView* view, const void** layout);
int32_t spyre_stick_layout(const SpyreView* view, const int64_t* dims, int64_t count,
                           const void** layout);
int32_t spyre_hand_layout(const SpyreView* view, int64_t* number);
int32_t spyre_check_reach(const void* data, const void* layout);
int32_t spyre_relayout(const SpyreView* view, const void* layout);
int32_t spyre_allocate_with_layout(int32_t device, const void* layout, int64_t host_bytes,
                                   void** data, int64_t* device_bytes);
// Host memory.
int32_t spyre_host_allocate(int64_t bytes, void** data);
void spyre_host_free(void* data);
int32_t spyre_is_pinned(const void* data);
void spyre_host_stats(SpyreStat* bytes, SpyreStat* blocks);
void spyre_host_reset_stats(int32_t is_of_peaks);
// Copies.
int32_t spyre_check_view(const SpyreView* view);
int32_t spyre_copy(const SpyreView* source, const SpyreView* target, int32_t non_blocking);
// Streams.
int64_t spyre_current_stream(int32_t device);
int64_t spyre_exchange_stream(int32_t device, int64_t stream);
int32_t spyre_new_stream(int32_t device, int32_t is_high, int64_t* stream);
int32_t spyre_query_stream(int32_t device, int64_t stream, int32_t* is_done);
int32_t spyre_synchronize_stream(int32_t device, int64_t stream);
// Events.
int32_t spyre_event_record(void** event, int32_t device, int64_t stream, int32_t is_timed);
int32_t spyre_event_wait(void* event, int32_t device, int64_t stream);
int32_t spyre_event_query(void* event, int32_t* is_done);
int32_t spyre_event_synchronize(void* event);
int32_t spyre_event_elapsed(void* first, void* second, double* milliseconds);
void spyre_event_destroy(void* event);
// Kernels. A plan is reference-counted; a text is the caller's.
int32_t spyre_hand_tensor(const SpyreView* view, int64_t* number);
struct SpyreLaunch {
  const SpyreView* tensors;
  int64_t count;
  const int64_t* scalars;
  int64_t scalar_count;
  const char* file;
  int64_t line;
};
int32_t spyre_find_plan(int64_t number, const char* folder, int32_t device, const void** plan);
int32_t spyre_launch(const void* plan, const SpyreLaunch* given, uint8_t* written);
char* spyre_plan_name(const void* plan);
void spyre_text_drop(char* text);
void spyre_plan_drop(const void* plan);
// Fallbacks: counts one, warns of it or refuses it.
int32_t spyre_fallback(const char* op);

// Runs an empty backward pass, which the Rust side calls for at exit.
int32_t spyre_flush_autograd(int32_t device);

// Tracebacks, which the shim has and the Rust side calls for: opaque, null if there is none.
using SpyreFrame = void (*)(void* context, const char* file, const char* name, uint64_t line);
using SpyreFrameOf = void (*)(void* context, size_t traceback, uint64_t frame);
// Frames of Python take the interpreter's lock: who may not wait for it gets none, unless it is held.
void* spyre_traceback_gather(int32_t with_cpp, int32_t may_wait) noexcept;
void spyre_traceback_drop(void* traceback) noexcept;
int32_t spyre_traceback_symbolize(void* const* tracebacks, size_t count, void* context,
                                  SpyreFrame frame, SpyreFrameOf frame_of) noexcept;
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
[[noreturn]] void raise(int32_t status);
[[noreturn]] void raise_interrupt();

inline void check(int32_t status) {
  if (C10_UNLIKELY(status != SPYRE_OK)) {
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
  explicit LayoutRef(const void* owned) : layout_(owned) {}
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
  const void* get() const {
    return layout_;
  }

 private:
  const void* layout_ = nullptr;
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

// New device memory as a storage.
c10::Storage new_storage(c10::DeviceIndex device, int64_t host_bytes, const SpyreView* view);
c10::Storage storage_with_layout(c10::DeviceIndex device, int64_t host_bytes, const void* layout);

// Gives a storage another length. Its bytes stay, as far as they go; new memory is laid out for
// `view`, or as it was.
void resize_storage(c10::StorageImpl* storage, int64_t host_bytes, const SpyreView* view);

// The allocator that storages name.
c10::Allocator* allocator();

// Carries an op out on the CPU.
void fallback(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

} // namespace spyre
#endif
