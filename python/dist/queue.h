// Collectives of a group, in the order in which they were asked for.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "work.h"

namespace spyreccl {

struct Job {
  Ref<Work> work;
  std::vector<Call> calls;
  // Contiguous stand-ins, and the tensors that they are copied to at the end.
  std::vector<std::pair<at::Tensor, at::Tensor>> landings;
  // Points in time of the caller's streams that the job begins after.
  std::vector<c10::Event> ready;
  std::optional<c10::Device> device;
  Milliseconds timeout;
  // Another rank may have to act first: nothing behind it waits for its end.
  bool is_point_to_point = false;
};

class Queue {
 public:
  explicit Queue(Ref<c10d::Backend> gloo) : gloo_(std::move(gloo)), worker_([this] { run(); }) {}
  ~Queue() {
    stop();
  }

  // Refuses if an earlier one failed: the group is of no use any more.
  void push(Job job);
  // Waits for what is queued, and takes nothing more.
  void stop();
  // The first failure; null if there was none.
  Outcome failure();
  void fail(Outcome outcome);

 private:
  void run();
  void carry_out(Job& job);
  void end(const Job& job, const std::vector<std::function<int()>>& started);
  Outcome named(const Job& job, const std::exception& error);
  // The group's own stream on a device: copies on it wait for no work of the program's.
  std::optional<c10::Stream> stream_of(const Job& job);

  const Ref<c10d::Backend> gloo_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool is_stopped_ = false;
  Outcome failure_;
  std::vector<std::future<void>> pending_;
  std::vector<c10::Stream> streams_;
  std::thread worker_;
};

} // namespace spyreccl
