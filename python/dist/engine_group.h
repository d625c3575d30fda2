// Collectives of device tensors by the engine: in their memory, in the turn of a stream, while the host goes on.
#pragma once

#include "../csrc/collectives.h"
#include "gloo_wire.h"
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

// A group of the engine's.
class EngineGroup {
 public:
  // Meets the other ranks: in memory, or by way of Gloo if they are on other machines.
  EngineGroup(const GroupTable& table, c10d::Store& store, Ref<c10d::Backend> gloo,
              const c10d::Backend::Options& options, int rank, int size);
  ~EngineGroup() {
    close();
  }

  // Queues a job on the group's stream. What a caller got wrong is a ValueError; else the group has failed.
  void start(Job job);
  void abort(const std::string& why) {
    if (group_ != nullptr) {
      table_.abort(group_, why.c_str());
    }
  }
  void set_timeout(Milliseconds timeout) {
    if (group_ != nullptr) {
      table_.set_timeout(group_, timeout.count());
    }
  }
  bool has_failed() const {
    return group_ != nullptr && table_.has_failed(group_);
  }
  std::string history() const;
  void close();
  // From now on no thread of the engine drops tensors. Called before the interpreter ends.
  static void keep_works_at_exit();

 private:
  struct Rows;
  c10::Stream stream_of(const Job& job);
  void check(SpyreStatus status, const Work& work) const;
  at::Tensor row_of(const at::Tensor& tensor, Rows& rows, bool is_written) const;

  const GroupTable& table_;
  GlooWire wire_;
  CollectiveGroup* group_ = nullptr;
  std::mutex mutex_;
  std::vector<std::pair<int, c10::Stream>> streams_;
};

} // namespace spyreccl
