// Groups of processes: what the library of the distributed backend, `_dist`, asks of the extension `_C`.
//
// The two are loaded apart, so that the functions are handed over as a table. Its other side is
// python/src/collectives.rs: keep the two alike.
#pragma once

#include "spyre_abi.h"

namespace at {
class Tensor;
}

namespace spyre {

// A group: the Rust side's own.
struct Group;

// Keys and values that the ranks of a group meet by. `get` gives the value, or if it fails the reason, to `take`.
struct GroupStore {
  void* context;
  bool (*set)(void* context, const char* key, const uint8_t* bytes, size_t count);
  bool (*get)(void* context, const char* key, int64_t milliseconds, void* sink,
              void (*take)(void* sink, const uint8_t* bytes, size_t count));
};

struct GroupSettings {
  const char* name;
  const uint64_t* global_ranks;
  size_t global_count;
  int64_t rank;
  int64_t size;
  int64_t milliseconds;
  GroupStore store;
};

// A collective of tensors that lie in one row each.
struct GroupCall {
  int32_t collective;
  int32_t dtype;
  int32_t reduction;
  int32_t root;
  uint32_t tag;
  double factor;
  const SpyreView* inputs;
  size_t input_count;
  const SpyreView* outputs;
  size_t output_count;
  int64_t milliseconds;
  const char* description;
};

// How a call ended: `why` is null if all went well.
using CallEnded = void (*)(void* context, const char* why, int32_t source_rank);
using TakeText = void (*)(void* sink, const uint8_t* bytes, size_t count);

struct GroupTable {
  // Message of the calling thread's last failure.
  const char* (*message)();
  SpyreView (*view_of)(const at::Tensor& tensor);
  SpyreStatus (*connect)(const GroupSettings* settings, Group** group);
  // Says if all elements of a tensor lie in one row, in the bits that ranks exchange.
  SpyreStatus (*is_in_a_row)(const SpyreView* view, bool* is);
  // Gives calls one place in the order, and has the stream carry them out in its turn. `ended` is called once, on
  // another thread, unless the status is an error. Without a device they begin at once.
  SpyreStatus (*start)(const Group* group, const GroupCall* calls, size_t count, int32_t device, int64_t stream,
                       CallEnded ended, void* context);
  void (*abort)(const Group* group, const char* reason);
  void (*set_timeout)(const Group* group, int64_t milliseconds);
  uint64_t (*sequence)(const Group* group);
  void (*history)(const Group* group, void* sink, TakeText take);
  // Waits for calls that are under way, and drops the group.
  void (*close)(Group* group);
};

} // namespace spyre

// The table; it lives as long as the process.
extern "C" const spyre::GroupTable* spyre_group_table() noexcept;
