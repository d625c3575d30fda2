// What the cards did, for PyTorch's profiler.
#pragma once

#include "spyre.h"

extern "C" {

struct SpyreRecorded;
enum SpyreBlockKind : int32_t {
  SPYRE_KERNEL = 0,
  SPYRE_COPY = 1,
  SPYRE_FILL = 2,
};
// A block that ran. Times are nanoseconds since 1970; `modelled` is how long a real card would take.
struct SpyreBlock {
  int32_t kind;
  int32_t device;
  int64_t stream;
  int64_t sequence;
  int64_t start;
  int64_t end;
  int64_t queued;
  int64_t modelled;
  int64_t correlation;
  const char* name;
  const char* shapes;
};
int32_t spyre_recording_start(uint64_t* number);
int32_t spyre_recording_stop(uint64_t number, SpyreRecorded** recorded);
// Whether there is a block at this place. Its texts are good until the recording is dropped.
int32_t spyre_recording_block(const SpyreRecorded* recorded, int64_t at, SpyreBlock* block);
void spyre_recording_drop(SpyreRecorded* recorded);
// The calling thread enters an op of this number, and leaves it.
void spyre_push_correlation(uint64_t id);
void spyre_pop_correlation();
}
