#include "backend.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace spyreccl {

using c10d::OpType;
using WorkRef = Backend::WorkRef;

namespace {

bool is_on_host(const Tensors& tensors) {
  return !tensors.empty() && tensors[0].device().is_cpu();
}

// Complex numbers are reduced as pairs of numbers: found here, what those cannot do is no end of the group.
void check_complex(const Call& call) {
  using c10d::ReduceOp;
  const auto op = call.reduction.op_;
  const bool is_sum = op == ReduceOp::SUM || op == ReduceOp::AVG || op == ReduceOp::PREMUL_SUM;
  TORCH_CHECK_VALUE(is_sum || call.inputs.empty() || !call.inputs[0].is_complex(), "spyreccl: complex numbers have no "
                    "order and no bits: they are reduced by SUM, AVG and PREMUL_SUM only");
}

std::mutex live_mutex;
std::vector<Backend*> live;

} // namespace

Backend::Backend(Ref<c10d::Store> store, int rank, int size, Ref<spyreccl::Options> options, GlooFactory make_gloo,
                 const GroupTable* table)
    : c10d::Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      make_gloo_(std::move(make_gloo)),
      gloo_(make_gloo_(c10::make_intrusive<c10d::PrefixStore>("gloo", store_), rank, size, options_->timeout)),
      table_(table),
      keys_("engine", store_),
      engine_(*table_, keys_, gloo_, *options_, rank, size) {
  init();
  std::lock_guard<std::mutex> lock(live_mutex);
  live.push_back(this);
}

Backend::~Backend() {
  {
    std::lock_guard<std::mutex> lock(live_mutex);
    live.erase(std::remove(live.begin(), live.end(), this), live.end());
  }
  shutdown();
}

std::vector<std::string> Backend::histories() {
  std::lock_guard<std::mutex> lock(live_mutex);
  std::vector<std::string> texts;
  for (const auto* backend : live) {
    texts.push_back(backend->engine_.history());
  }
  return texts;
}

void Backend::setTimeout(Milliseconds timeout) {
  options_->timeout = timeout;
  gloo_->setTimeout(timeout);
  engine_.set_timeout(timeout);
}

void Backend::startCoalescing() {
  coalesced_.emplace();
}

WorkRef Backend::endCoalescing() {
  auto parts = std::move(coalesced_).value_or(std::vector<WorkRef>());
  coalesced_.reset();
  return c10::make_intrusive<JoinedWork>(std::move(parts));
}

void Backend::check_one(const Tensors& tensors, const char* operation) const {
  TORCH_CHECK(tensors.size() == 1, "spyreccl: ", operation, " takes one tensor per rank, not ", tensors.size(),
              ": a process has one device of a group");
  TORCH_CHECK(!tensors[0].is_sparse() && tensors[0].device().type() == kSpyre, "spyreccl: ", operation,
              " takes dense tensors of spyre or of the CPU, not one of ", tensors[0].layout(), " on ",
              tensors[0].device());
}

at::Tensor Backend::whole_input(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

at::Tensor Backend::whole_output(Job& job, const at::Tensor& tensor) {
  auto own = tensor.detach();
  if (own.is_contiguous() && !own.is_conj() && !own.is_neg()) {
    return own;
  }
  auto whole = at::empty(own.sizes(), own.options());
  whole.copy_(own);
  job.landings.emplace_back(whole, own);
  return whole;
}

Job Backend::job_of(OpType type, Milliseconds timeout, Tensors results) {
  const auto sequence = ++sequence_;
  auto title = c10::str("rank ", rank_, " of ", size_, ", group ", options_->group_name, ": ", c10d::opTypeToString(type),
                        " #", sequence);
  if (!results.empty()) {
    title += c10::str(" of ", results[0].scalar_type(), " ", results[0].sizes());
  }
  Job job;
  job.timeout = timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  job.work = c10::make_intrusive<Work>(rank_, type, sequence, std::move(results), std::move(title));
  return job;
}

WorkRef Backend::push(Job job) {
  const c10::impl::VirtualGuardImpl guard(kSpyre);
  for (const auto& call : job.calls) {
    check_complex(call);
    for (const auto* list : {&call.inputs, &call.outputs}) {
      if (!list->empty() && !job.device) {
        job.device = list->front().device();
      }
    }
  }
  if (job.device) {
    job.ready.emplace_back(kSpyre);
    job.ready.back().record(guard.getStream(*job.device));
  }
  WorkRef work = job.work;
  engine_.start(std::move(job));
  if (coalesced_) {
    coalesced_->push_back(work);
  }
  return work;
}

WorkRef Backend::in_place(const at::Tensor& tensor, Call call, Milliseconds timeout) {
  auto job = job_of(call.operation, timeout, {tensor});
  const auto whole = whole_output(job, tensor);
  if (whole.numel() > 0) {
    call.inputs = call.outputs = {whole};
    job.calls = {std::move(call)};
  }
  return push(std::move(job));
}

WorkRef Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (is_on_host(tensors)) {
    return gloo_->broadcast(tensors, options);
  }
  check_one(tensors, "broadcast");
  Call call{OpType::BROADCAST};
  call.root = static_cast<int>(options.rootRank);
  return in_place(tensors[0], std::move(call), options.timeout);
}

WorkRef Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (is_on_host(tensors)) {
    return gloo_->allreduce(tensors, options);
  }
  check_one(tensors, "allreduce");
  Call call{OpType::ALLREDUCE};
  call.reduction = options.reduceOp;
  return in_place(tensors[0], std::move(call), options.timeout);
}

WorkRef Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK(is_on_host(tensors), "spyreccl: allreduce of sparse tensors runs on the CPU only: move them there, or use "
              "to_dense()");
  return gloo_->allreduce_sparse(tensors, options);
}

WorkRef Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  if (is_on_host(tensors)) {
    return gloo_->allreduce_coalesced(tensors, options);
  }
  auto job = job_of(OpType::ALLREDUCE_COALESCED, options.timeout, tensors);
  for (const auto& tensor : tensors) {
    check_one({tensor}, "allreduce_coalesced");
    if (tensor.numel() > 0) {
      const Tensors whole{whole_output(job, tensor)};
      job.calls.push_back({OpType::ALLREDUCE, whole, whole, options.reduceOp});
    }
  }
  return push(std::move(job));
}

WorkRef Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (is_on_host(tensors)) {
    return gloo_->reduce(tensors, options);
  }
  check_one(tensors, "reduce");
  auto job = job_of(OpType::REDUCE, options.timeout, tensors);
  if (tensors[0].numel() > 0) {
    const bool is_root = rank_ == options.rootRank;
    Call call{OpType::REDUCE, {is_root ? whole_output(job, tensors[0]) : whole_input(tensors[0])}, {}, options.reduceOp};
    call.root = static_cast<int>(options.rootRank);
    if (is_root) {
      call.outputs = call.inputs;
    }
    job.calls = {std::move(call)};
  }
  return push(std::move(job));
}

WorkRef Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  if (is_on_host(inputs)) {
    return gloo_->allgather(outputs, inputs, options);
  }
  check_one(inputs, "allgather");
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_), "spyreccl: allgather needs one list "
              "of ", size_, " outputs, one per rank");
  return allgather_coalesced(outputs, inputs, options);
}

WorkRef Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::AllgatherOptions& options) {
  if (is_on_host(inputs)) {
    return gloo_->allgather_coalesced(outputs, inputs, options);
  }
  Tensors results;
  for (const auto& list : outputs) {
    results.insert(results.end(), list.begin(), list.end());
  }
  auto job = job_of(OpType::ALLGATHER, options.timeout, std::move(results));
  for (size_t at = 0; at < inputs.size(); ++at) {
    Call call{OpType::ALLGATHER, {whole_input(inputs[at])}};
    int64_t count = 0;
    for (const auto& output : outputs[at]) {
      count += output.numel();
      call.outputs.push_back(whole_output(job, output));
    }
    if (count > 0) {
      job.calls.push_back(std::move(call));
    }
  }
  return push(std::move(job));
}

Call Backend::gather_call(Job& job, const at::Tensor& output, const at::Tensor& input) {
  TORCH_CHECK(output.numel() == input.numel() * size_, "spyreccl: the output of all_gather_into_tensor has ",
              output.numel(), " elements, and ", size_, " ranks give ", input.numel(), " each");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "spyreccl: the output of all_gather_into_tensor is ",
              output.scalar_type(), " and the input ", input.scalar_type());
  const auto whole = flat(whole_output(job, output));
  return {OpType::ALLGATHER, {flat(whole_input(input))}, rows(whole, std::vector<int64_t>(size_, input.numel()))};
}

WorkRef Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  if (input.device().is_cpu()) {
    return gloo_->_allgather_base(output, input, options);
  }
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkRef Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  if (is_on_host(inputs)) {
    return gloo_->allgather_into_tensor_coalesced(outputs, inputs, options);
  }
  auto job = job_of(OpType::_ALLGATHER_BASE, options.timeout, outputs);
  for (size_t at = 0; at < outputs.size(); ++at) {
    check_one({inputs.at(at)}, "all_gather_into_tensor");
    if (outputs[at].numel() > 0) {
      job.calls.push_back(gather_call(job, outputs[at], inputs[at]));
    }
  }
  return push(std::move(job));
}

WorkRef Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  if (is_on_host(inputs)) {
    return gloo_->gather(outputs, inputs, options);
  }
  check_one(inputs, "gather");
  const bool is_root = rank_ == options.rootRank;
  TORCH_CHECK(is_root == (outputs.size() == 1), "spyreccl: gather needs a list of outputs at rank ", options.rootRank,
              " and nowhere else");
  auto job = job_of(OpType::GATHER, options.timeout, is_root ? outputs[0] : Tensors());
  if (inputs[0].numel() > 0) {
    Call call{OpType::GATHER, {whole_input(inputs[0])}};
    call.root = static_cast<int>(options.rootRank);
    for (const auto& output : is_root ? outputs[0] : Tensors()) {
      call.outputs.push_back(whole_output(job, output));
    }
    job.calls = {std::move(call)};
  }
  return push(std::move(job));
}

WorkRef Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  if (is_on_host(outputs)) {
    return gloo_->scatter(outputs, inputs, options);
  }
  check_one(outputs, "scatter");
  const bool is_root = rank_ == options.rootRank;
  TORCH_CHECK(is_root == (inputs.size() == 1), "spyreccl: scatter needs a list of inputs at rank ", options.rootRank,
              " and nowhere else");
  auto job = job_of(OpType::SCATTER, options.timeout, outputs);
  if (outputs[0].numel() > 0) {
    Call call{OpType::SCATTER, {}, {whole_output(job, outputs[0])}};
    call.root = static_cast<int>(options.rootRank);
    for (const auto& input : is_root ? inputs[0] : Tensors()) {
      call.inputs.push_back(whole_input(input));
    }
    job.calls = {std::move(call)};
  }
  return push(std::move(job));
}

WorkRef Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                const c10d::ReduceScatterOptions& options) {
  check_one(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_), "spyreccl: reduce_scatter needs one "
              "list of ", size_, " inputs, one per rank");
  auto job = job_of(OpType::REDUCE_SCATTER, options.timeout, outputs);
  Call call{OpType::REDUCE_SCATTER, {}, {whole_output(job, outputs[0])}, options.reduceOp};
  int64_t count = 0;
  for (const auto& input : inputs[0]) {
    count += input.numel();
    call.inputs.push_back(whole_input(input));
  }
  if (count > 0) {
    job.calls = {std::move(call)};
  }
  return push(std::move(job));
}

Call Backend::scatter_call(Job& job, const at::Tensor& output, const at::Tensor& input,
                           const c10d::ReduceOp& reduction) {
  TORCH_CHECK(input.numel() == output.numel() * size_, "spyreccl: the input of reduce_scatter_tensor has ", input.numel(),
              " elements, and ", size_, " ranks take ", output.numel(), " each");
  const auto whole = flat(whole_input(input));
  return {OpType::REDUCE_SCATTER, rows(whole, std::vector<int64_t>(size_, output.numel())),
          {flat(whole_output(job, output))}, reduction};
}

WorkRef Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                      const c10d::ReduceScatterOptions& options) {
  if (input.device().is_cpu()) {
    return gloo_->_reduce_scatter_base(output, input, options);
  }
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkRef Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  if (is_on_host(inputs)) {
    return gloo_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  auto job = job_of(OpType::_REDUCE_SCATTER_BASE, options.timeout, outputs);
  for (size_t at = 0; at < outputs.size(); ++at) {
    check_one({inputs.at(at)}, "reduce_scatter_tensor");
    if (inputs[at].numel() > 0) {
      job.calls.push_back(scatter_call(job, outputs[at], inputs[at], options.reduceOp));
    }
  }
  return push(std::move(job));
}

WorkRef Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                               std::vector<int64_t>& input_rows, const c10d::AllToAllOptions& options) {
  if (input.device().is_cpu()) {
    return gloo_->alltoall_base(output, input, output_rows, input_rows, options);
  }
  const auto counts = [this](const at::Tensor& whole, const std::vector<int64_t>& given) {
    if (!given.empty() || whole.numel() == 0) {
      return given.empty() ? std::vector<int64_t>(size_, 0) : given;
    }
    TORCH_CHECK(whole.size(0) % size_ == 0, "spyreccl: all_to_all_single without split sizes needs a first dimension "
                "that ", size_, " ranks divide, not ", whole.size(0));
    return std::vector<int64_t>(size_, whole.size(0) / size_);
  };
  auto job = job_of(OpType::ALLTOALL_BASE, options.timeout, {output});
  job.calls = {{OpType::ALLTOALL, rows(whole_input(input), counts(input, input_rows)),
                rows(whole_output(job, output), counts(output, output_rows))}};
  return push(std::move(job));
}

WorkRef Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK(inputs.size() == static_cast<size_t>(size_) && outputs.size() == inputs.size(), "spyreccl: all_to_all needs ",
              size_, " inputs and outputs, one per rank");
  if (is_on_host(inputs)) {
    return gloo_->alltoall(outputs, inputs, options);
  }
  auto job = job_of(OpType::ALLTOALL, options.timeout, outputs);
  Call call{OpType::ALLTOALL};
  for (int rank = 0; rank < size_; ++rank) {
    call.inputs.push_back(whole_input(inputs[rank]));
    call.outputs.push_back(whole_output(job, outputs[rank]));
  }
  job.calls = {std::move(call)};
  return push(std::move(job));
}

WorkRef Backend::send(Tensors& tensors, int target, int tag) {
  if (is_on_host(tensors)) {
    return gloo_->send(tensors, target, tag);
  }
  check_one(tensors, "send");
  auto job = job_of(OpType::SEND, c10d::kUnsetTimeout, tensors);
  job.calls = {{OpType::SEND, {whole_input(tensors[0])}, {}, c10d::ReduceOp::SUM, target, tag}};
  job.is_point_to_point = true;
  return push(std::move(job));
}

WorkRef Backend::recv(Tensors& tensors, int source, int tag) {
  if (is_on_host(tensors)) {
    return source < 0 ? gloo_->recvAnysource(tensors, tag) : gloo_->recv(tensors, source, tag);
  }
  check_one(tensors, "recv");
  const auto type = source < 0 ? OpType::RECVANYSOURCE : OpType::RECV;
  auto job = job_of(type, c10d::kUnsetTimeout, tensors);
  job.calls = {{type, {}, {whole_output(job, tensors[0])}, c10d::ReduceOp::SUM, source, tag}};
  job.is_point_to_point = true;
  return push(std::move(job));
}

WorkRef Backend::recvAnysource(Tensors& tensors, int tag) {
  return recv(tensors, -1, tag);
}

WorkRef Backend::barrier(const c10d::BarrierOptions& options) {
  auto job = job_of(OpType::BARRIER, options.timeout, {});
  job.calls = {{OpType::BARRIER}};
  return push(std::move(job));
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  gloo_->monitoredBarrier(options, wait_for_all);
}

void Backend::abort() {
  engine_.abort("spyreccl: group " + options_->group_name + " was aborted");
  gloo_->abort();
}

Ref<c10d::Backend> Backend::split(const Ref<c10d::Store>& store, const std::vector<int>& ranks,
                                  const Ref<c10d::Backend::Options>& options) {
  // The store is the parent's, and a group that serves two kinds of devices is split once for each of them: a number
  // makes the child's keys its own. All ranks count, those without a child, too.
  const int number = ++splits_;
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) {
    return nullptr;
  }
  auto own = c10::make_intrusive<spyreccl::Options>(options ? options->timeout : options_->timeout);
  own->group_name = options ? options->group_name : options_->group_name;
  for (const auto rank : ranks) {
    const auto& known = options_->global_ranks_in_group;
    own->global_ranks_in_group.push_back(known.empty() ? rank : known.at(rank));
  }
  const auto prefix = c10::str("split", number, "/", own->group_name);
  auto keys = c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  return c10::make_intrusive<spyreccl::Backend>(std::move(keys), static_cast<int>(place - ranks.begin()),
                                                static_cast<int>(ranks.size()), std::move(own), make_gloo_, table_);
}

Ref<c10d::Backend> Backend::shrink(const std::vector<int64_t>& excluded, int,
                                   const Ref<c10d::Backend::Options>& options) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) {
      ranks.push_back(rank);
    }
  }
  return split(store_, ranks, options);
}

} // namespace spyreccl
