// A collective that was asked for: PyTorch waits for it, or has streams wait.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

#include "call.h"

namespace spyreccl {

// How a job reported its end: empty if all went well.
using Outcome = std::exception_ptr;

struct Work final : c10d::Work {
  Work(int rank, c10d::OpType type, uint64_t sequence, Tensors results, std::string title);

  // The current stream waits; the host does so only with a timeout, SPYRE_CCL_BLOCKING_WAIT=1, or nothing to wait in.
  bool wait(Milliseconds timeout) override;
  bool isCompleted() override;
  void synchronize() override;
  void blockCurrentStream() override {
    synchronize();
  }
  std::vector<at::Tensor> result() override {
    return results_;
  }
  int sourceRank() const override {
    return source_;
  }
  Ref<c10::ivalue::Future> getFuture() override {
    return future_;
  }
  Ref<c10::ivalue::Future> getFutureResult() override;
  uint64_t getSequencenumber() const override {
    return sequence_;
  }
  float getDuration() const override;

  // What is queued on the stream so far is the collective: streams that wait for it wait for this point.
  void follow(const c10::Stream& stream);
  // The collective has ended; only the first report counts. Writes of it were queued on the calling thread's current stream.
  void end(Outcome outcome);
  // It will be followed: its future is a matter of the stream, not of the end.
  void set_in_a_stream() {
    is_in_a_stream_ = true;
  }
  void set_source(int rank) {
    source_ = rank;
  }
  const std::string& title() const {
    return title_;
  }

 private:
  void wait_in_slices(Milliseconds timeout);

  const uint64_t sequence_;
  const Tensors results_;
  const std::string title_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point ended_;
  int source_ = -1;
  std::optional<c10::Event> point_;
  bool is_in_a_stream_ = false;
  Ref<c10::ivalue::Future> future_;
};

// Several, as one.
struct JoinedWork final : c10d::Work {
  explicit JoinedWork(std::vector<Ref<c10d::Work>> parts) : parts_(std::move(parts)) {}

  bool isCompleted() override;
  bool wait(Milliseconds timeout) override;
  void synchronize() override;
  std::vector<at::Tensor> result() override;
  Ref<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<Ref<c10d::Work>> parts_;
};

} // namespace spyreccl
