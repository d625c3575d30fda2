#pragma once

// Written by tools/abi-header from python/src: do not edit it.

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <new>
#include "spyre_abi.h"

/// A group of processes.
struct CollectiveGroup;

/// A receiver of bytes.
using Take = void(*)(void *sink, const uint8_t *bytes, uintptr_t count);

/// PyTorch's store, as the other side calls it.
struct TorchStore {
  void *context;
  bool (*set)(void*, const char*, const uint8_t*, uintptr_t);
  bool (*get)(void*, const char*, int64_t, void*, Take);
};

/// Gloo, as the other side calls it.
struct TorchRemote {
  void *context;
  /// Sends bytes, or receives them.
  bool (*transfer)(void *context,
                   bool is_send,
                   int32_t peer,
                   uint32_t tag,
                   uint8_t *bytes,
                   uintptr_t count,
                   int64_t milliseconds,
                   void *sink,
                   Take take);
  void (*abort)(void *context);
};

/// Ranks of a group and how they meet.
struct GroupSettings {
  const char *name;
  const uint64_t *global_ranks;
  uintptr_t global_count;
  int64_t rank;
  int64_t size;
  int64_t milliseconds;
  TorchStore store;
  TorchRemote remote;
};

/// A collective of tensors that lie in one row each.
struct GroupCall {
  /// PyTorch's number of the operation, its `OpType`.
  int32_t operation;
  int32_t dtype;
  int32_t reduction;
  int32_t root;
  uint32_t tag;
  double factor;
  const SpyreView *inputs;
  uintptr_t input_count;
  const SpyreView *outputs;
  uintptr_t output_count;
  int64_t milliseconds;
  const char *description;
};

/// Callback about the end of calls: `why` is null if all went well.
using CallEnded = void(*)(void*, const char *why, int32_t source_rank);

/// The functions of this part.
struct GroupTable {
  /// Message of the calling thread's last failure.
  const char *(*message)();
  /// The view of a tensor of PyTorch's, which is given by its address.
  SpyreView (*view_of)(const void *tensor);
  /// Meets the other ranks of a group.
  SpyreStatus (*connect)(const GroupSettings *settings, Option<Box<CollectiveGroup>> *group);
  /// Says if all elements of a tensor lie in one row, in the bits that ranks exchange.
  SpyreStatus (*is_in_a_row)(const SpyreView *view, bool *is);
  /// Gives calls one place in the group's order, and has a stream carry them out in its turn; without a device they
  /// begin at once. `ended` is called once, also when the status is an error.
  SpyreStatus (*start)(const CollectiveGroup *group,
                       const GroupCall *calls,
                       uintptr_t count,
                       int32_t device,
                       int64_t stream,
                       CallEnded ended,
                       void *context);
  /// Ends a group now.
  void (*abort)(const CollectiveGroup *group, const char *reason);
  /// Says if a group has failed.
  bool (*has_failed)(const CollectiveGroup *group);
  /// Sets the time of later calls.
  void (*set_timeout)(const CollectiveGroup *group, int64_t milliseconds);
  /// The flight record.
  void (*history)(const CollectiveGroup *group, void *sink, Take take);
  /// Waits for calls that are under way, and drops the group.
  void (*close)(Box<CollectiveGroup> group);
};

extern "C" {

extern SpyreView spyre_view_of_tensor(const void *tensor);

}  // extern "C"
