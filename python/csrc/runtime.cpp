// The device as PyTorch asks for it: allocators, guard, hooks and generator. Each method is a call to
// the Rust side. What is registered is never destroyed: tensors may outlive any static.
#include "spyre.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/CallOnce.h>
#include <torch/library.h>

namespace spyre {

void raise(SpyreStatus status) {
  std::string message = spyre_message();
  switch (status) {
    case SpyreStatus::OutOfMemory:
      C10_THROW_ERROR(OutOfMemoryError, std::move(message));
    case SpyreStatus::Index:
      C10_THROW_ERROR(IndexError, std::move(message));
    case SpyreStatus::Value:
      C10_THROW_ERROR(ValueError, std::move(message));
    case SpyreStatus::NotImplemented:
      C10_THROW_ERROR(NotImplementedError, std::move(message));
    case SpyreStatus::Type:
      C10_THROW_ERROR(TypeError, std::move(message));
    case SpyreStatus::Distributed:
      C10_THROW_ERROR(DistBackendError, std::move(message));
    case SpyreStatus::Interrupted:
      raise_interrupt();
    default:
      C10_THROW_ERROR(Error, std::move(message));
  }
}

c10::Device device_at(c10::DeviceIndex index) {
  return {kSpyre, index_of(c10::Device(kSpyre, index))};
}

namespace {

void delete_memory(void* data) {
  const int64_t bytes = spyre_free(data);
  if (bytes > 0) {
    c10::reportMemoryUsageToProfiler(
        data, -bytes, 0, 0, c10::Device(kSpyre, static_cast<c10::DeviceIndex>(spyre_device_of(data))));
  }
}

c10::DataPtr data_ptr(const SpyreMemory& memory, c10::DeviceIndex index) {
  const c10::Device device(kSpyre, index);
  if (memory.data != nullptr) {
    c10::reportMemoryUsageToProfiler(memory.data, memory.device_bytes, 0, 0, device);
  }
  return {memory.data, memory.data, &delete_memory, device};
}

c10::CachingAllocator::Stat stat(const SpyreStat& from) {
  c10::CachingAllocator::Stat to;
  to.current = from.current;
  to.peak = from.peak;
  to.allocated = from.allocated;
  to.freed = from.freed;
  return to;
}

c10::CachingAllocator::StatArray stats(const SpyrePools& from) {
  c10::CachingAllocator::StatArray all{};
  all[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)] = stat(from.all);
  all[static_cast<size_t>(c10::CachingAllocator::StatType::SMALL_POOL)] = stat(from.small);
  all[static_cast<size_t>(c10::CachingAllocator::StatType::LARGE_POOL)] = stat(from.large);
  return all;
}

// Of what is not counted by size.
c10::CachingAllocator::StatArray stats(const SpyreStat& from) {
  return stats(SpyrePools{from, from, {}});
}

struct SpyreAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto index = static_cast<c10::DeviceIndex>(spyre_current_device());
    SpyreMemory memory;
    check(spyre_allocate(index, nullptr, static_cast<int64_t>(bytes), &memory));
    return data_ptr(memory, index);
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &delete_memory;
  }

  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    const auto size = static_cast<int64_t>(bytes);
    const int64_t stride = 1;
    const auto byte = static_cast<int32_t>(c10::ScalarType::Byte);
    const SpyreView from{const_cast<void*>(source), &size, &stride, 1, 0, nullptr, byte, SpyreMemoryKind::Device};
    const SpyreView to{target, &size, &stride, 1, 0, nullptr, byte, SpyreMemoryKind::Device};
    check(spyre_copy(&from, &to, false));
  }

  bool initialized() override {
    return spyre_is_started();
  }

  void emptyCache(c10::MempoolId_t) override {
    check(spyre_empty_cache());
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (ptr.get() != nullptr) {
      check(spyre_record_stream(ptr.get(), stream.device_index(), stream.id()));
    }
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    SpyreStats from{};
    check(spyre_stats(device, &from));
    c10::CachingDeviceAllocator::DeviceStats to;
    to.allocation = stats(from.allocation);
    to.active = stats(from.allocation);
    to.allocated_bytes = stats(from.allocated_bytes);
    to.active_bytes = stats(from.allocated_bytes);
    to.requested_bytes = stats(from.requested_bytes);
    to.reserved_bytes = stats(from.reserved_bytes);
    to.segment = stats(from.segment);
    to.inactive_split = stats(SpyreStat{from.inactive_blocks, from.inactive_blocks, 0, 0});
    to.inactive_split_bytes = stats(SpyreStat{from.inactive_bytes, from.inactive_bytes, 0, 0});
    to.num_alloc_retries = from.retries;
    to.num_ooms = from.ooms;
    return to;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    check(spyre_reset_accumulated_stats(device));
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    check(spyre_reset_peak_stats(device));
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    int64_t free_bytes = 0;
    int64_t total_bytes = 0;
    check(spyre_memory_info(device, &free_bytes, &total_bytes));
    return {static_cast<size_t>(free_bytes), static_cast<size_t>(total_bytes)};
  }
};

struct SpyreHostAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    if (bytes > 0) {
      check(spyre_host_allocate(static_cast<int64_t>(bytes), &data));
    }
    return {data, data, &spyre_host_free, c10::DeviceType::CPU};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &spyre_host_free;
  }

  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

  // A copy that is queued keeps its block: nothing is to be recorded.
  bool record_event(void* ptr, void*, c10::Stream) override {
    return spyre_is_pinned(ptr);
  }

  void empty_cache() override {}

  at::HostStats get_stats() override {
    SpyreStat bytes{};
    SpyreStat blocks{};
    spyre_host_stats(&bytes, &blocks);
    at::HostStats stats;
    stats.active_bytes = stats.allocated_bytes = stat(bytes);
    stats.active_requests = stats.allocations = stat(blocks);
    stats.num_host_alloc = blocks.allocated;
    stats.num_host_free = blocks.freed;
    return stats;
  }

  void reset_accumulated_stats() override {
    spyre_host_reset_stats(false);
  }

  void reset_peak_stats() override {
    spyre_host_reset_stats(true);
  }
};

// PyTorch keeps events as mere pointers.
SpyreEvent* as_event(void* event) {
  return static_cast<SpyreEvent*>(event);
}

struct SpyreGuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kSpyre;
  }

  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    if (device.index() >= 0 && device.index() != before.index()) {
      setDevice(device);
    }
    return before;
  }

  c10::Device getDevice() const override {
    return {kSpyre, static_cast<c10::DeviceIndex>(spyre_current_device())};
  }

  void setDevice(c10::Device device) const override {
    if (device.index() >= 0) {
      check(spyre_set_current_device(device.index()));
    }
  }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) {
      spyre_set_current_device_unchecked(device.index());
    }
  }

  c10::Stream getStream(c10::Device device) const override {
    const auto index = index_of(device);
    return stream(spyre_current_stream(index), index);
  }

  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream(0, index_of(device));
  }

  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high) const override {
    return getNewStream(device, is_high ? -1 : 0);
  }

  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const auto index = index_of(device);
    int64_t id = 0;
    check(spyre_new_stream(index, priority != 0, &id));
    return stream(id, index);
  }

  c10::Stream exchangeStream(c10::Stream next) const override {
    const auto index = next.device_index();
    const int64_t before = spyre_exchange_stream(index, next.id());
    check(before < 0 ? SpyreStatus::Value : SpyreStatus::Ok);
    return stream(before, index);
  }

  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<intptr_t>(stream.id()));
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) {
      spyre_event_destroy(as_event(event));
    }
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "Event device index ",
                static_cast<int>(device), " does not match recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    const bool is_timed = flag == c10::EventFlag::BACKEND_DEFAULT;
    check(spyre_event_record(reinterpret_cast<SpyreEvent**>(event), stream.device_index(), stream.id(), is_timed));
  }

  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      check(spyre_event_wait(as_event(event), stream.device_index(), stream.id()));
    }
  }

  bool queryEvent(void* event) const override {
    bool is_done = true;
    if (event != nullptr) {
      check(spyre_event_query(as_event(event), &is_done));
    }
    return is_done;
  }

  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(spyre_device_count());
  }

  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_QInt8 = types.has_QUInt8 = types.has_QInt32 = 0;
    types.has_QUInt4x2 = types.has_QUInt2x4 = 0;
    if (spyre_is_card_profile()) {
      types.has_Double = types.has_Long = 0;
      types.has_ComplexHalf = types.has_ComplexFloat = types.has_ComplexDouble = 0;
    }
    return capability;
  }

  bool queryStream(const c10::Stream& stream) const override {
    bool is_done = false;
    check(spyre_query_stream(stream.device_index(), stream.id(), &is_done));
    return is_done;
  }

  void synchronizeStream(const c10::Stream& stream) const override {
    check(spyre_synchronize_stream(stream.device_index(), stream.id()));
  }

  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      check(spyre_event_synchronize(as_event(event)));
    }
  }

  void synchronizeDevice(const c10::DeviceIndex device) const override {
    check(spyre_synchronize_device(device));
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get() != nullptr) {
      check(spyre_record_stream(data.get(), stream.device_index(), stream.id()));
    }
  }

  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    double milliseconds = 0;
    check(spyre_event_elapsed(as_event(first), as_event(second), &milliseconds));
    return milliseconds;
  }

 private:
  static c10::Stream stream(int64_t id, c10::DeviceIndex index) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kSpyre, index), id);
  }
};

// Philox: a seed, and how far along its numbers one is.
struct SpyreGeneratorImpl final : c10::GeneratorImpl {
  explicit SpyreGeneratorImpl(c10::DeviceIndex index)
      : GeneratorImpl({kSpyre, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }

  void set_offset(uint64_t offset) override {
    offset_ = offset;
  }

  uint64_t get_offset() const override {
    return offset_;
  }

  uint64_t current_seed() const override {
    return seed_;
  }

  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }

  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == kStateBytes, "RNG state is wrong size: ", state.numel(),
                " bytes, not the ", kStateBytes, " of a seed and an offset");
    TORCH_CHECK(state.data() != nullptr, "RNG state has no memory: it is a tensor of another kind, such as a fake one");
    uint64_t words[2];
    std::memcpy(words, static_cast<const uint8_t*>(state.data()), kStateBytes);
    seed_ = words[0];
    offset_ = words[1];
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    // Past the dispatcher: a mode, such as that of fake tensors, would give a tensor without memory.
    auto state = at::detail::empty_cpu({kStateBytes}, at::kByte);
    const uint64_t words[2] = {seed_, offset_};
    std::memcpy(state.data_ptr(), words, kStateBytes);
    return state.getIntrusivePtr();
  }

 private:
  static constexpr int64_t kStateBytes = 16;

  SpyreGeneratorImpl* clone_impl() const override {
    auto* clone = new SpyreGeneratorImpl(device_.index());
    clone->seed_ = seed_;
    clone->offset_ = offset_;
    return clone;
  }

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

constexpr size_t kMostDevices = 8;

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* generators = [] {
    auto* made = new std::array<at::Generator, kMostDevices>();
    for (size_t at = 0; at < kMostDevices; ++at) {
      (*made)[at] = at::make_generator<SpyreGeneratorImpl>(static_cast<c10::DeviceIndex>(at));
      made->at(at).seed();
    }
    return made;
  }();
  const auto at = device_at(index).index();
  TORCH_CHECK(at >= 0 && at < spyre_device_count(), "Device index ", static_cast<int>(at),
              " out of range [0, ", spyre_device_count(), ")");
  return (*generators)[static_cast<size_t>(at)];
}

struct SpyreHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }

  bool isAvailable() const override {
    return spyre_device_count() > 0;
  }

  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(spyre_device_count());
  }

  void setCurrentDevice(c10::DeviceIndex device) const override {
    check(spyre_set_current_device(device));
  }

  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(spyre_current_device());
  }

  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto before = getCurrentDevice();
    setCurrentDevice(device);
    return before;
  }

  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }

  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<SpyreGeneratorImpl>(device_at(index).index());
  }

  at::Device getDeviceFromPtr(void* data) const override {
    const int32_t device = spyre_device_of(data);
    TORCH_CHECK(device >= 0, "The pointer is not an address of a spyre device");
    return {kSpyre, static_cast<c10::DeviceIndex>(device)};
  }

  bool isPinnedPtr(const void* data) const override {
    return spyre_is_pinned(data);
  }

  at::Allocator* getPinnedMemoryAllocator() const override {
    return at::getHostAllocator(kSpyre);
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), static_cast<int64_t>(bytes), nullptr);
  }
};

c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::StorageImpl::use_byte_size_t use,
                                                  c10::SymInt bytes, c10::DataPtr data,
                                                  c10::Allocator* allocator, bool resizable) {
  if (data == nullptr && bytes.expect_int() > 0) {
    return c10::make_intrusive<SpyreStorageImpl>(
        use, bytes, allocator->allocate(static_cast<size_t>(bytes.expect_int())), allocator, resizable);
  }
  if (data == nullptr && data.device().type() != kSpyre) {
    // Nothing is somewhere, too.
    data = data_ptr(SpyreMemory{}, static_cast<c10::DeviceIndex>(spyre_current_device()));
  }
  return c10::make_intrusive<SpyreStorageImpl>(use, std::move(bytes), std::move(data), allocator,
                                               resizable);
}

SpyreAllocator* device_allocator() {
  static auto* allocator = new SpyreAllocator();
  return allocator;
}

SpyreHostAllocator* host_allocator() {
  static auto* allocator = new SpyreHostAllocator();
  return allocator;
}

const bool is_registered = [] {
  c10::SetAllocator(kSpyre, device_allocator());
  at::setHostAllocator(kSpyre, host_allocator(), 0);
  at::RegisterPrivateUse1HooksInterface(new SpyreHooks());
  c10::SetStorageImplCreate(kSpyre, &make_storage);
  return true;
}();

C10_REGISTER_GUARD_IMPL(PrivateUse1, SpyreGuardImpl)

at::Generator default_generator_of(int64_t device) {
  return default_generator(static_cast<c10::DeviceIndex>(device));
}

TORCH_LIBRARY_FRAGMENT(spyre, m) {
  m.def("_default_generator(int device) -> Generator?", TORCH_FN(default_generator_of));
}

} // namespace

c10::Allocator* allocator() {
  return device_allocator();
}

c10::Storage storage_of(c10::DeviceIndex device, int64_t host_bytes, const SpyreMemory& memory) {
  return c10::Storage(c10::make_intrusive<SpyreStorageImpl>(
      c10::StorageImpl::use_byte_size_t(), host_bytes, data_ptr(memory, device), device_allocator(), true));
}

c10::Storage new_storage(c10::DeviceIndex device, int64_t host_bytes, const SpyreView* view) {
  SpyreMemory memory;
  check(spyre_allocate(device, view, host_bytes, &memory));
  return storage_of(device, host_bytes, memory);
}

c10::Storage storage_with_layout(c10::DeviceIndex device, int64_t host_bytes, LayoutPointer layout) {
  SpyreMemory memory;
  check(spyre_allocate_with_layout(device, layout, host_bytes, &memory));
  return storage_of(device, host_bytes, memory);
}

void resize_storage(c10::StorageImpl* storage, int64_t host_bytes, const SpyreView* view) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const auto before = static_cast<int64_t>(storage->nbytes());
  if (before == host_bytes) {
    return;
  }
  const c10::OptionalDeviceGuard guard(storage->device());
  SpyreMemory memory;
  check(spyre_resize(storage->data(), std::min(before, host_bytes), view, host_bytes, &memory));
  storage->set_data_ptr_noswap(data_ptr(memory, storage->device().index()));
  storage->set_nbytes(static_cast<size_t>(host_bytes));
}

} // namespace spyre
