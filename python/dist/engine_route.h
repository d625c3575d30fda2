// Collectives of device tensors by the engine: in their memory, in the turn of a stream, while the host goes on.
#pragma once

#include "../csrc/collectives.h"
#include "queue.h"

namespace spyreccl {

// A group of the engine's, of ranks on one machine.
class EngineGroup {
 public:
  // Meets the other ranks; throws if they cannot meet in memory.
  EngineGroup(const spyre::GroupTable& table, c10d::Store& store, const c10d::Backend::Options& options, int rank,
              int size);
  ~EngineGroup() {
    close();
  }

  // Queues a job on the group's stream. What a caller got wrong is a ValueError; else the group has failed.
  void start(Job job);
  void abort(const std::string& why) {
    table_.abort(group_, why.c_str());
  }
  void set_timeout(Milliseconds timeout) {
    table_.set_timeout(group_, timeout.count());
  }
  std::string history() const;
  void close();

 private:
  struct Rows;
  c10::Stream stream_of(const Job& job);
  void check(SpyreStatus status, const Work& work) const;
  at::Tensor row_of(const at::Tensor& tensor, Rows& rows, bool is_written) const;

  const spyre::GroupTable& table_;
  spyre::Group* group_ = nullptr;
  const int rank_;
  std::mutex mutex_;
  std::vector<std::pair<int, c10::Stream>> streams_;
};

} // namespace spyreccl
