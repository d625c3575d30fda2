#include "engine_group.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <shared_mutex>

#include "plain_kernels.h"

namespace spyreccl {
namespace {

using c10d::OpType;

// Hands over why a call failed.
void tell(const std::exception& error, void* sink, Take take) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  const std::string why = known != nullptr ? known->what_without_backtrace() : error.what();
  take(sink, reinterpret_cast<const uint8_t*>(why.data()), why.size());
}

bool set_key(void* store, const char* key, const uint8_t* bytes, size_t count) {
  try {
    static_cast<c10d::Store*>(store)->set(key, std::vector<uint8_t>(bytes, bytes + count));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool get_key(void* store, const char* key, int64_t milliseconds, void* sink, Take take) {
  try {
    auto* keys = static_cast<c10d::Store*>(store);
    keys->wait({key}, Milliseconds(milliseconds));
    const auto value = keys->get(key);
    take(sink, value.data(), value.size());
    return true;
  } catch (const std::exception& error) {
    tell(error, sink, take);
    return false;
  }
}

bool transfer(void* wire, bool is_send, int32_t peer, uint32_t tag, uint8_t* bytes, size_t count, int64_t milliseconds,
              void* sink, Take take) {
  try {
    const PlainKernels plain;
    const Milliseconds timeout(milliseconds);
    static_cast<GlooWire*>(wire)->transfer(is_send, peer, static_cast<int>(tag), bytes, count, timeout);
    return true;
  } catch (const std::exception& error) {
    tell(error, sink, take);
    return false;
  }
}

void abort_wire(void* wire) {
  static_cast<GlooWire*>(wire)->abort();
}

// Held while a thread of the engine ends a work: to drop the last tensor with an object of Python's, it takes the
// interpreter's lock.
std::shared_mutex ending_works;
bool is_exiting = false;

// The work that waits for a call, until the engine has reported its end.
void end_work(void* context, const char* why, int32_t source) {
  const std::shared_lock<std::shared_mutex> lock(ending_works);
  std::unique_ptr<Ref<Work>> held(static_cast<Ref<Work>*>(context));
  auto& work = **held;
  work.set_source(source);
  Outcome outcome;
  if (why != nullptr) {
    const auto text = "spyreccl: " + work.title() + ": " + why;
    outcome = std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, __LINE__}, text));
  }
  work.end(outcome);
  if (is_exiting) {
    // An interpreter that ends stops threads that ask for its lock, wherever they are: the tensors are never dropped.
    (void)held.release();
  }
}

} // namespace

// Rows of a job's tensors. Views point into tensors, which stay where they are.
struct EngineGroup::Rows {
  std::deque<at::Tensor> held;
  std::deque<std::vector<SpyreView>> lists;
  std::vector<std::pair<at::Tensor, at::Tensor>> whole;
  std::vector<std::pair<at::Tensor, at::Tensor>> landings;
};

EngineGroup::EngineGroup(const GroupTable& table, c10d::Store& store, Ref<c10d::Backend> gloo,
                         const c10d::Backend::Options& options, int rank, int size)
    : table_(table), wire_(std::move(gloo)) {
  const auto& global = options.global_ranks_in_group;
  const GroupSettings settings{options.group_name.c_str(), global.data(), global.size(), rank, size,
                               options.timeout.count(), {&store, &set_key, &get_key}, {&wire_, &transfer, &abort_wire}};
  const auto status = table_.connect(&settings, &group_);
  TORCH_CHECK_WITH(DistBackendError, status == SpyreStatus::Ok, "spyreccl: ", table_.message());
}

void EngineGroup::keep_works_at_exit() {
  const Unlocked unlocked;
  const std::unique_lock<std::shared_mutex> lock(ending_works);
  is_exiting = true;
}

void EngineGroup::close() {
  if (group_ == nullptr) {
    return;
  }
  const Unlocked unlocked;
  for (const auto& [kind, stream] : streams_) {
    try {
      stream.synchronize();
    } catch (const std::exception&) {
      // The works have the cause.
    }
  }
  table_.close(std::exchange(group_, nullptr));
}

std::string EngineGroup::history() const {
  std::string text = "{}";
  if (group_ == nullptr) {
    return text;
  }
  table_.history(group_, &text, [](void* sink, const uint8_t* bytes, size_t count) {
    static_cast<std::string*>(sink)->assign(reinterpret_cast<const char*>(bytes), count);
  });
  return text;
}

// Sends, receives and all others have streams of their own: a receive waits for no send.
c10::Stream EngineGroup::stream_of(const Job& job) {
  const int kind = !job.is_point_to_point ? 0 : job.work->retrieveOpType() == OpType::SEND ? 1 : 2;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [known, stream] : streams_) {
    if (known == kind && stream.device() == *job.device) {
      return stream;
    }
  }
  const c10::impl::VirtualGuardImpl guard(kSpyre);
  return streams_.emplace_back(kind, guard.getNewStream(*job.device, -1)).second;
}

void EngineGroup::check(SpyreStatus status, const Work& work) const {
  TORCH_CHECK_VALUE(status != SpyreStatus::Value, "spyreccl: ", work.title(), ": ", table_.message());
  TORCH_CHECK_WITH(DistBackendError, status == SpyreStatus::Ok, "spyreccl: ", work.title(), ": ", table_.message());
}

at::Tensor EngineGroup::row_of(const at::Tensor& tensor, Rows& rows, bool is_written) const {
  const auto real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  if (real.numel() == 0) {
    return real;
  }
  const auto view = table_.view_of(&real);
  bool is_row = false;
  TORCH_CHECK(table_.is_in_a_row(&view, &is_row) == SpyreStatus::Ok, "spyreccl: ", table_.message());
  if (is_row) {
    return real;
  }
  // A tensor that is read and written has one stand-in.
  for (const auto& [original, row] : rows.whole) {
    if (original.is_same(tensor)) {
      if (is_written) {
        rows.landings.emplace_back(row, real);
      }
      return row;
    }
  }
  auto row = at::empty({real.numel()}, real.options());
  if (is_written) {
    rows.landings.emplace_back(row, real);
  } else {
    row.copy_(real.reshape({-1}));
    rows.whole.emplace_back(tensor, row);
  }
  return row;
}

void EngineGroup::start(Job job) {
  TORCH_CHECK_WITH(DistBackendError, group_ != nullptr, "spyreccl: ", job.work->title(), ": the group was destroyed");
  const PlainKernels plain;
  auto& work = *job.work;
  Rows rows;
  std::optional<c10::Stream> stream;
  if (job.device) {
    stream = stream_of(job);
    work.set_in_a_stream();
  }
  const c10::OptionalStreamGuard guard(stream);
  for (auto& point : job.ready) {
    point.block(*stream);
  }
  std::vector<GroupCall> calls;
  const auto views = [&](const Tensors& tensors, bool is_written) -> const std::vector<SpyreView>& {
    auto& list = rows.lists.emplace_back();
    for (const auto& tensor : tensors) {
      list.push_back(table_.view_of(&rows.held.emplace_back(row_of(tensor, rows, is_written))));
    }
    return list;
  };
  for (const auto& given : job.calls) {
    const auto& inputs = views(given.inputs, false);
    const auto& outputs = views(given.outputs, true);
    GroupCall call{};
    call.operation = static_cast<int32_t>(given.operation);
    call.dtype = rows.held.empty() ? 0 : static_cast<int32_t>(rows.held.back().scalar_type());
    call.reduction = static_cast<int32_t>(given.reduction.op_);
    call.factor = factor_of(given.reduction);
    call.root = given.root;
    call.tag = static_cast<uint32_t>(given.tag);
    call.inputs = inputs.data();
    call.input_count = inputs.size();
    call.outputs = outputs.data();
    call.output_count = outputs.size();
    call.milliseconds = job.timeout.count();
    call.description = work.title().c_str();
    calls.push_back(call);
  }
  const auto device = job.device ? job.device->index() : -1;
  auto* context = new Ref<Work>(job.work);
  const auto id = stream ? stream->id() : 0;
  check(table_.start(group_, calls.data(), calls.size(), device, id, &end_work, context), work);
  if (!stream) {
    return;
  }
  for (const auto& [row, tensor] : rows.landings) {
    tensor.copy_(row.reshape(tensor.sizes()));
  }
  for (const auto& [from, to] : job.landings) {
    to.copy_(from);
  }
  work.follow(*stream);
}

} // namespace spyreccl
