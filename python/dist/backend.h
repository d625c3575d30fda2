// The backend "spyreccl": what torch.distributed asks of a group, as calls in the group's queue.
#pragma once

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <atomic>
#include <functional>

#include "engine_group.h"

namespace spyreccl {

struct Options final : c10d::Backend::Options {
  explicit Options(Milliseconds timeout = kBackendDefaultTimeout) : c10d::Backend::Options("spyreccl", timeout) {}
};

// Makes the Gloo that a group has inside: PyTorch's wheels have no headers of it, so that Python is asked.
using GlooFactory = std::function<Ref<c10d::Backend>(const Ref<c10d::Store>&, int rank, int size, Milliseconds)>;

class Backend final : public c10d::Backend {
 public:
  Backend(Ref<c10d::Store> store, int rank, int size, Ref<spyreccl::Options> options, GlooFactory make_gloo,
          const GroupTable* table);
  ~Backend() override;

  using WorkRef = Ref<c10d::Work>;
  const std::string getBackendName() const override { return "spyreccl"; }
  Ref<c10d::Backend::Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  bool supportsShrinking() const override { return true; }
  void setTimeout(Milliseconds timeout) override;
  void startCoalescing() override;
  WorkRef endCoalescing() override;

  WorkRef broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkRef allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkRef allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkRef allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkRef reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkRef allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkRef _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkRef allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkRef allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkRef gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkRef scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkRef reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkRef _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkRef reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkRef alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                        std::vector<int64_t>& input_rows, const c10d::AllToAllOptions& options) override;
  WorkRef alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkRef send(Tensors& tensors, int target, int tag) override;
  WorkRef recv(Tensors& tensors, int source, int tag) override;
  WorkRef recvAnysource(Tensors& tensors, int tag) override;
  WorkRef barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void enableCollectivesTiming() override {}
  c10d::ErrorType getError() override {
    return engine_.has_failed() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
  }
  void abort() override;
  void shutdown() override {
    engine_.close();
  }
  Ref<c10d::Backend> split(const Ref<c10d::Store>& store, const std::vector<int>& ranks,
                           const Ref<c10d::Backend::Options>& options) override;
  Ref<c10d::Backend> shrink(const std::vector<int64_t>& excluded, int flags,
                            const Ref<c10d::Backend::Options>& options) override;

  // Flight records of the groups of this process, as JSON.
  static std::vector<std::string> histories();

 private:
  // Tensors of one direction as one piece each: those of outputs are copied back at the end.
  at::Tensor whole_input(const at::Tensor& tensor);
  at::Tensor whole_output(Job& job, const at::Tensor& tensor);
  Job job_of(c10d::OpType type, Milliseconds timeout, Tensors results);
  WorkRef push(Job job);
  WorkRef in_place(const at::Tensor& tensor, Call call, Milliseconds timeout);
  Call gather_call(Job& job, const at::Tensor& output, const at::Tensor& input);
  Call scatter_call(Job& job, const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& reduction);
  void check_one(const Tensors& tensors, const char* operation) const;

  const Ref<c10d::Store> store_;
  const Ref<spyreccl::Options> options_;
  const GlooFactory make_gloo_;
  const Ref<c10d::Backend> gloo_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<int> splits_{0};
  std::optional<std::vector<WorkRef>> coalesced_;
  const GroupTable* const table_;
  c10d::PrefixStore keys_;
  EngineGroup engine_;
};

} // namespace spyreccl
