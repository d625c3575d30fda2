#include "work.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace spyreccl {
namespace {

// Waits look for signals so often.
constexpr Milliseconds kSlice{50};

std::vector<c10::Device> devices_of(const Tensors& tensors) {
  std::vector<c10::Device> devices;
  for (const auto& tensor : tensors) {
    if (tensor.device().type() == kSpyre && devices.empty()) {
      devices.push_back(tensor.device());
    }
  }
  return devices;
}

// Runs the handlers of signals that have come: Ctrl-C ends a wait.
void look_for_signals() {
  const pybind11::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) {
    throw python_error();
  }
}

} // namespace

Work::Work(int rank, c10d::OpType type, uint64_t sequence, Tensors results, std::string title)
    : c10d::Work(rank, type),
      sequence_(sequence),
      results_(std::move(results)),
      title_(std::move(title)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                        devices_of(results_))) {}

bool Work::wait(Milliseconds timeout) {
  static const bool is_blocking = [] {
    const char* value = std::getenv("SPYRE_CCL_BLOCKING_WAIT");
    return value != nullptr && std::string(value) == "1";
  }();
  const bool is_from_any = retrieveOpType() == c10d::OpType::RECVANYSOURCE;
  if (!point_ || is_blocking || is_from_any || timeout > kNoTimeout) {
    wait_in_slices(timeout);
  }
  if (const auto outcome = exception()) {
    std::rethrow_exception(outcome);
  }
  synchronize();
  return true;
}

bool Work::isCompleted() {
  return c10d::Work::isCompleted() && (exception() || !point_ || point_->query());
}

void Work::synchronize() {
  if (point_) {
    const c10::impl::VirtualGuardImpl guard(kSpyre);
    point_->block(guard.getStream(point_->device()));
  }
}

void Work::follow(const c10::Stream& stream) {
  point_.emplace(kSpyre);
  point_->record(stream);
  // Callbacks of the future run now, on streams that wait for this one.
  const c10::StreamGuard guard(stream);
  future_->markCompleted(c10::IValue(results_));
}

void Work::wait_in_slices(Milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  const bool is_limited = timeout > kNoTimeout;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (cv_.wait_for(lock, is_limited ? std::min(timeout, kSlice) : kSlice, [this] { return completed_; })) {
        return;
      }
    }
    look_for_signals();
    const bool is_late = is_limited && std::chrono::steady_clock::now() - begin >= timeout;
    TORCH_CHECK_WITH(DistBackendError, !is_late, "spyreccl: ", title_, ": timeout, wait(timeout=) allowed ",
                     timeout.count(), " ms. The collective goes on");
  }
}

Ref<c10::ivalue::Future> Work::getFutureResult() {
  auto result = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  future_->addCallback([result](c10::ivalue::Future& ended) {
    const auto outcome = ended.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
    result->markCompleted(c10::IValue(static_cast<int64_t>(outcome)));
  });
  return result;
}

float Work::getDuration() const {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(completed_, "spyreccl: ", title_, " has not ended: its duration is not known yet");
  return std::chrono::duration<float, std::milli>(ended_ - began_).count();
}

void Work::end(Outcome outcome) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (completed_) {
      return;
    }
    ended_ = std::chrono::steady_clock::now();
    completed_ = true;
    exception_ = outcome;
    cv_.notify_all();
  }
  if (is_in_a_stream_ || future_->completed()) {
    return;
  }
  if (outcome) {
    future_->setError(outcome);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
}

bool JoinedWork::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isCompleted(); });
}

bool JoinedWork::wait(Milliseconds timeout) {
  for (const auto& part : parts_) {
    part->wait(timeout);
  }
  return true;
}

void JoinedWork::synchronize() {
  for (const auto& part : parts_) {
    part->synchronize();
  }
}

std::vector<at::Tensor> JoinedWork::result() {
  Tensors all;
  for (const auto& part : parts_) {
    const auto own = part->result();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Ref<c10::ivalue::Future> JoinedWork::getFuture() {
  // Parts end in their order: the last one's end is that of all.
  TORCH_CHECK(!parts_.empty(), "spyreccl: nothing was queued between startCoalescing and endCoalescing");
  return parts_.back()->getFuture();
}

} // namespace spyreccl
