#pragma once

// Written by tools/abi-header from python/src: do not edit it.

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <new>

struct StorageLayout;
template <typename T> using Box = T*;
template <typename T> using Option = T;

/// Outcome of a call of the shim: the kind of exception that a failure becomes.
enum class SpyreStatus : int32_t {
  /// All went well.
  Ok = 0,
  Runtime = 1,
  OutOfMemory = 2,
  Index = 3,
  Value = 4,
  NotImplemented = 5,
  Type = 6,
  /// Not an error: the caller is to go another way.
  Unsupported = 7,
  /// Not an error: the tensors that are written are to be resized to the first result's shape.
  Resize = 8,
  /// A signal's handler has raised an exception, which the Rust side holds.
  Interrupted = 9,
  /// A collective has failed, and its group with it.
  Distributed = 10,
};

/// Memory that a tensor is in.
enum class SpyreMemoryKind : int32_t {
  /// The host's.
  Host,
  /// The host's, in a block that copies read and write in place.
  Pinned,
  /// A device's.
  Device,
};

/// Kind of an argument.
enum class SpyreArgumentKind : int32_t {
  None,
  Tensor,
  /// Several; a view with a negative `dim` stands for one that is missing.
  Tensors,
  Int,
  Float,
  Bool,
  Ints,
  Floats,
  Bools,
  String,
  /// Random numbers: a seed (`integer`) and an offset (`count`).
  Random,
};

/// Property of an operator that the shim asks for.
enum class SpyreFlag : uint32_t {
  MixedDevices,
  Fills,
  SilentResize,
  Range,
  Replaced,
  BorrowsSparse,
  BorrowsCompressed,
  BorrowsNested,
};

/// Kind of a block, as the profiler tells them apart.
enum class SpyreBlockKind : int32_t {
  Kernel,
  Copy,
  Fill,
};

/// An event, and the card that it was first recorded on.
struct SpyreEvent;

/// A prepared plan.
struct SpyrePlan;

/// Recorded blocks that the profiler is given, and iterates over.
struct SpyreRecorded;

/// A layout that the shim holds a count of, or null.
using LayoutPointer = const StorageLayout*;

/// A tensor that the shim holds until the call returns.
///
/// On the host `data` is its first element and `offset` zero; on the device `data` is the storage's address and
/// `offset` counts elements from there. A negative `dim` stands for a tensor that is undefined.
struct SpyreView {
  void *data;
  const int64_t *sizes;
  const int64_t *strides;
  int64_t dim;
  int64_t offset;
  LayoutPointer layout;
  int32_t dtype;
  SpyreMemoryKind place;
};

/// A text of the shim, which ends with a zero and lives until the call returns.
using SpyreText = const char*;

/// A number, its largest value, and what was ever added and taken away.
struct SpyreStat {
  int64_t current;
  int64_t peak;
  int64_t allocated;
  int64_t freed;
};

/// Arguments of a launch. It has room for a byte per tensor: whether the tensor is written.
struct SpyreLaunch {
  const SpyreView *tensors;
  uint8_t *written;
  int64_t count;
  const uint64_t *scalars;
  int64_t scalar_count;
  SpyreText file;
  int64_t line;
};

/// Dims of a tensor.
struct SpyreDims {
  const int64_t *first;
  int64_t count;
};

/// Memory of a storage: an address, and the device bytes that it takes. Zero bytes have no address.
struct SpyreMemory {
  void *data;
  int64_t device_bytes;
};

/// A number of all allocations, of small and of large ones.
struct SpyrePools {
  SpyreStat all;
  SpyreStat small;
  SpyreStat large;
};

/// Counts of a device's memory.
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

/// An argument, which the shim holds until the call returns. `list` leads to views, numbers or a text.
struct SpyreArgument {
  SpyreArgumentKind kind;
  /// Dtype of a host tensor that is taken for a number; -1 for a mere number.
  int32_t dtype;
  int64_t count;
  int64_t integer;
  double real;
  double imaginary;
  const void *list;
};

/// A tensor that was made. Its numbers are good until the thread's next call.
struct SpyreResult {
  int32_t dtype;
  int64_t dim;
  const int64_t *sizes;
  const int64_t *strides;
  SpyreMemory memory;
  int64_t host_bytes;
};

/// A call of an op, which the shim holds until it returns.
struct SpyreCall {
  int32_t op;
  int32_t device;
  int32_t default_dtype;
  const SpyreArgument *arguments;
  int64_t count;
  /// Indices of the arguments that are written.
  const int64_t *written;
  int64_t written_count;
  /// Room for the results that the shim takes; an op may make more, for itself.
  SpyreResult *results;
  int64_t room;
};

/// An op of the namespace `spyre` that is PyTorch's under another name. A result is one of several, or -1 for all.
struct SpyreAlias {
  const char *schema;
  const char *op;
  const char *overload;
  int32_t result;
};

/// Tensors of an attention; the mask may be missing. Only shapes are read.
struct SpyreAttention {
  SpyreView query;
  SpyreView key;
  SpyreView value;
  SpyreView mask;
};

/// A block that ran. Times are nanoseconds since 1970; `modelled` is how long a real card would take. Its texts are
/// good until the recording is dropped.
struct SpyreBlock {
  SpyreBlockKind kind;
  int32_t device;
  int64_t stream;
  int64_t sequence;
  int64_t start;
  int64_t end;
  int64_t queued;
  int64_t modelled;
  int64_t correlation;
  const char *name;
  const char *shapes;
};

extern "C" {

/// Message of the calling thread's last failure. Valid until its next failure.
const char *spyre_message();

/// Copies a tensor to one of the same sizes; at least one is on a device.
SpyreStatus spyre_copy(const SpyreView *source, const SpyreView *target, bool non_blocking);

/// Refuses a view whose bits the card does not keep.
SpyreStatus spyre_check_view(const SpyreView *view);

/// Tells if an op is decomposed: then a kernel for it is registered at the key of decompositions. What the CPU has
/// no kernel for always is, whatever `EAGER_MODE` says.
SpyreStatus spyre_has_decomposition(SpyreText op,
                                    bool has_cpu,
                                    bool *has);

/// Number of devices; it never fails.
int32_t spyre_device_count();

/// Returns true if a device was opened.
bool spyre_is_started();

/// The calling thread's device.
int32_t spyre_current_device();

/// Makes a device the calling thread's that was so before.
void spyre_set_current_device_unchecked(int32_t device);

/// Makes a device the calling thread's.
SpyreStatus spyre_set_current_device(int32_t device);

/// Waits for all streams of a device.
SpyreStatus spyre_synchronize_device(int32_t device);

/// Returns true if devices keep a real card's number formats.
bool spyre_is_card_profile();

/// Returns true if int64 that is narrowed comes with a warning.
bool spyre_warns_of_downcasts();

/// The calling thread's stream on a device.
int64_t spyre_current_stream(int32_t device);

/// Refuses what a graph cannot repeat, if the calling thread's stream captures one.
SpyreStatus spyre_refuse_in_capture(int32_t device, SpyreText what);

/// Makes a stream the calling thread's; the one that was, or -1 with a message.
int64_t spyre_exchange_stream(int32_t device, int64_t stream);

/// The next stream of the pool.
SpyreStatus spyre_new_stream(int32_t device, bool is_high, int64_t *stream);

/// Tells if all that is queued on a stream has ended.
SpyreStatus spyre_query_stream(int32_t device, int64_t stream, bool *is_done);

/// Waits for a stream.
SpyreStatus spyre_synchronize_stream(int32_t device, int64_t stream);

/// Records an event; it is made when it is first recorded.
SpyreStatus spyre_event_record(Option<Box<SpyreEvent>> *event,
                               int32_t device,
                               int64_t stream,
                               bool is_timed);

/// Has a stream wait for an event, which may be another card's. The host does not wait.
SpyreStatus spyre_event_wait(const SpyreEvent *event, int32_t device, int64_t stream);

/// Tells if an event was reached.
SpyreStatus spyre_event_query(const SpyreEvent *event, bool *is_done);

/// Waits for an event.
SpyreStatus spyre_event_synchronize(const SpyreEvent *event);

/// Milliseconds between two events; negative if they were recorded in the other order.
SpyreStatus spyre_event_elapsed(const SpyreEvent *first,
                                const SpyreEvent *second,
                                double *milliseconds);

/// Drops an event; a forked child only forgets it.
void spyre_event_destroy(Box<SpyreEvent> event);

extern bool spyre_register_fallback(const char *namespace_, const char *op);

extern void spyre_register_kinds();

/// Counts a fallback, and warns of it or refuses it.
SpyreStatus spyre_fallback(SpyreText op);

/// Allocates a block.
SpyreStatus spyre_host_allocate(int64_t bytes, void **data);

/// Gives a block back.
void spyre_host_free(void *data);

/// Returns true if an address lies in a block.
bool spyre_is_pinned(const void *data);

/// Counts of bytes and of blocks.
void spyre_host_stats(SpyreStat *bytes, SpyreStat *blocks);

/// Begins to count peaks anew, or totals.
void spyre_host_reset_stats(bool is_of_peaks);

/// A plan by its number or, if that is 0, by its folder.
SpyreStatus spyre_find_plan(int64_t number,
                            SpyreText folder,
                            int32_t device,
                            Option<Box<SpyrePlan>> *plan);

/// Hands a tensor over to Python, as plans know it.
SpyreStatus spyre_hand_tensor(const SpyreView *view, int64_t *number);

/// Queues a plan on the calling thread's stream, and says of each tensor whether it is written.
SpyreStatus spyre_launch(const SpyrePlan *plan, const SpyreLaunch *given);

/// Name of a plan, which is good until the plan is dropped.
const char *spyre_plan_name(const SpyrePlan *plan);

/// Drops a plan.
void spyre_plan_drop(Box<SpyrePlan> plan);

/// Takes a layout that Python handed over, for a tensor of this shape.
SpyreStatus spyre_take_layout(int64_t number, const SpyreView *view, LayoutPointer *layout);

/// The layout of a tensor of this shape with these dimensions in sticks.
SpyreStatus spyre_stick_layout(const SpyreView *view, SpyreDims dims, LayoutPointer *layout);

/// Hands the layout of a tensor over to Python: its own, its memory's, or what it would have.
SpyreStatus spyre_hand_layout(const SpyreView *view, int64_t *number);

/// Checks that a tensor's memory can be seen through a layout: one that reaches further is refused.
SpyreStatus spyre_check_reach(const void *data, LayoutPointer layout);

/// Moves all of a storage, as a tensor shows it, into memory with another layout. Its address stays, and so does
/// everything that views it.
SpyreStatus spyre_relayout(const SpyreView *view,
                           LayoutPointer layout);

/// Memory for a tensor; without a view, for bytes of no dtype.
SpyreStatus spyre_allocate(int32_t device,
                           const SpyreView *view,
                           int64_t host_bytes,
                           SpyreMemory *memory);

/// Memory with a layout that the program chose.
SpyreStatus spyre_allocate_with_layout(int32_t device,
                                       LayoutPointer layout,
                                       int64_t host_bytes,
                                       SpyreMemory *memory);

/// Memory of another length, with the same bytes as far as they go. Elements keep their dtype.
SpyreStatus spyre_resize(const void *data,
                         int64_t kept_bytes,
                         const SpyreView *view,
                         int64_t host_bytes,
                         SpyreMemory *memory);

/// Has bytes of no dtype become the elements of a tensor that shows all of them.
SpyreStatus spyre_adopt(const SpyreView *view, int64_t host_bytes);

/// Has memory kept until what is queued on a stream now has ended.
SpyreStatus spyre_record_stream(const void *data, int32_t device, int64_t stream);

/// Counts of a device's memory.
SpyreStatus spyre_stats(int32_t device, SpyreStats *stats);

/// Begins to count peaks anew.
SpyreStatus spyre_reset_peak_stats(int32_t device);

/// Begins to count totals anew.
SpyreStatus spyre_reset_accumulated_stats(int32_t device);

/// Bytes that a tensor can be given, and all of them: the budget of all cards.
SpyreStatus spyre_memory_info(int32_t device, int64_t *free_bytes, int64_t *total_bytes);

/// Gives back memory that the allocators keep for later.
SpyreStatus spyre_empty_cache();

/// Gives an address back, and says how many device bytes were freed. A forked child has none.
int64_t spyre_free(void *data);

/// Device of an address; -1 if it is of none.
int32_t spyre_device_of(const void *data);

/// One more count of a layout.
LayoutPointer spyre_layout_clone(LayoutPointer layout);

/// Gives a count of a layout up.
void spyre_layout_drop(LayoutPointer layout);

/// The name of the op of this number, without its namespace; null past the last.
const char *spyre_op_name(int32_t op);

/// Carries a call out: makes its results, and queues its launches. Says how many results there are.
///
/// If tensors that are written have another shape than the result, the status is `Resize`, and the first result says
/// which shape they are to have.
SpyreStatus spyre_call(const SpyreCall *call,
                       int64_t *made);

/// Returns true if an op, such as `aten::add.out`, has a flag. A name without an overload has those of all.
bool spyre_has_flag(SpyreText op,
                    SpyreFlag flag);

/// Name of a number that is listed with a flag; null past the last.
const char *spyre_flagged_op(SpyreFlag flag, int32_t number);

/// Fills in the alias of a number; `false` past the last.
bool spyre_alias(int32_t number, SpyreAlias *alias);

/// Tells if kernels take an attention.
SpyreStatus spyre_takes_attention(const SpyreAttention *given,
                                  double dropout,
                                  bool has_groups,
                                  bool *takes);

/// Begins a recording.
SpyreStatus spyre_recording_start(uint64_t *number);

/// Ends a recording; what it gives is the caller's, to give back to `spyre_recording_drop`.
SpyreStatus spyre_recording_stop(uint64_t number, Option<Box<SpyreRecorded>> *recorded);

/// The block of this place; `false` past the last.
bool spyre_recording_block(const SpyreRecorded *recorded, int64_t at, SpyreBlock *block);

/// Drops a recording.
void spyre_recording_drop(Box<SpyreRecorded> recorded);

/// The calling thread enters an op that the profiler gave this number.
void spyre_push_correlation(uint64_t id);

/// The calling thread leaves it.
void spyre_pop_correlation();

/// Makes it the interpreter's current exception again; the caller holds the interpreter's lock.
void spyre_restore_interrupt();

/// The next copy to the host is a number that a program asked for.
void spyre_note_read();

}  // extern "C"
