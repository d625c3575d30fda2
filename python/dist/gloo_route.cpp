#include "gloo_route.h"

namespace spyreccl {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.to(at::kCPU).contiguous();
}

// Dtype that elements are summed in: 16-bit floats are rounded once, at the end.
at::ScalarType sum_type(at::ScalarType type) {
  if (at::isFloatingType(type)) {
    return type == at::kDouble ? type : at::kFloat;
  }
  if (type == at::kBool || type == at::kByte || type == at::kChar) {
    return type == at::kChar ? type : at::kByte;
  }
  return type == at::kShort || type == at::kUInt16 ? at::kInt : type == at::kInt ? type : at::kLong;
}

// Reduction that Gloo is asked for: it knows sums, products, extremes and bits.
ReduceOp::RedOpType reduction_of(ReduceOp::RedOpType op, at::ScalarType type) {
  if (type != at::kBool) {
    return op == ReduceOp::AVG || op == ReduceOp::PREMUL_SUM ? ReduceOp::SUM : op;
  }
  const bool is_or = op == ReduceOp::SUM || op == ReduceOp::BOR;
  const bool is_and = op == ReduceOp::PRODUCT || op == ReduceOp::BAND;
  return is_or ? ReduceOp::MAX : is_and ? ReduceOp::MIN : op;
}

at::Tensor widened(const at::Tensor& tensor, const ReduceOp& reduction) {
  auto host = on_host(tensor);
  if (host.is_complex()) {
    host = at::view_as_real(host);
  }
  auto wide = host.to(sum_type(host.scalar_type()), false, true);
  return reduction == ReduceOp::PREMUL_SUM ? wide.mul_(factor_of(reduction).to(at::kCPU)) : wide;
}

at::Tensor narrowed(at::Tensor wide, const at::Tensor& like, const ReduceOp& reduction, int ranks) {
  if (reduction == ReduceOp::AVG) {
    wide = at::isFloatingType(wide.scalar_type()) ? wide.div_(ranks) : wide.div_(ranks, "trunc");
  }
  if (like.is_complex()) {
    wide = at::view_as_complex(wide.to(c10::toRealValueType(like.scalar_type())));
  }
  return wide.to(like.scalar_type());
}

template <typename Options>
Options with(Milliseconds timeout) {
  Options options;
  options.timeout = timeout;
  return options;
}

using Works = std::vector<Ref<c10d::Work>>;
struct Started {
  Works works;
  std::function<void()> land = [] {};
};

Started reduce(c10d::Backend& gloo, const Call& call, Milliseconds timeout) {
  Tensors wide;
  for (const auto& input : call.inputs) {
    wide.push_back(flat(widened(input, call.reduction)));
  }
  // One share per rank: all of them are reduced, and each rank keeps its own.
  Tensors whole{wide.size() == 1 ? wide[0] : at::cat(wide)};
  const auto op = reduction_of(call.reduction, call.inputs[0].scalar_type());
  Started started;
  if (call.operation == OpType::REDUCE) {
    auto options = with<c10d::ReduceOptions>(timeout);
    options.reduceOp = op;
    options.rootRank = call.root;
    started.works = {gloo.reduce(whole, options)};
  } else {
    auto options = with<c10d::AllreduceOptions>(timeout);
    options.reduceOp = op;
    started.works = {gloo.allreduce(whole, options)};
  }
  const int ranks = gloo.getSize();
  int64_t start = 0;
  for (int rank = 0; wide.size() > 1 && rank < gloo.getRank(); ++rank) {
    start += wide[rank].numel();
  }
  const auto count = wide[wide.size() > 1 ? gloo.getRank() : 0].numel();
  started.land = [call, ranks, own = whole[0].narrow(0, start, count)] {
    for (const auto& output : call.outputs) {
      auto shape = output.sizes().vec();
      if (output.is_complex()) {
        shape.push_back(2);
      }
      output.copy_(narrowed(own.reshape(shape), output, call.reduction, ranks));
    }
  };
  return started;
}

// Moves bytes: chunks lie in the order of ranks, one after the other.
Started move(c10d::Backend& gloo, const Call& call, Milliseconds timeout) {
  Tensors given;
  Tensors taken;
  for (const auto& input : call.inputs) {
    given.push_back(bytes(on_host(input)));
  }
  for (const auto& output : call.outputs) {
    taken.push_back(at::empty({output.numel() * static_cast<int64_t>(output.element_size())}, at::kByte));
  }
  Started started;
  switch (call.operation) {
    case OpType::BROADCAST: {
      auto options = with<c10d::BroadcastOptions>(timeout);
      options.rootRank = call.root;
      // In place: the root has what the others are to have.
      taken = given;
      started.works = {gloo.broadcast(taken, options)};
      break;
    }
    case OpType::ALLGATHER: {
      // Gloo gathers pieces of one length: shorter ones are followed by zeros.
      int64_t most = 0;
      for (const auto& piece : taken) {
        most = std::max(most, piece.numel());
      }
      std::vector<Tensors> wide(1);
      for (auto& piece : taken) {
        wide[0].push_back(at::empty({most}, at::kByte));
        piece = wide[0].back().narrow(0, 0, piece.numel());
      }
      Tensors own{at::constant_pad_nd(given[0], {0, most - given[0].numel()})};
      started.works = {gloo.allgather(wide, own, with<c10d::AllgatherOptions>(timeout))};
      break;
    }
    case OpType::GATHER: {
      auto options = with<c10d::GatherOptions>(timeout);
      options.rootRank = call.root;
      std::vector<Tensors> lists;
      if (gloo.getRank() == call.root) {
        lists.push_back(taken);
      }
      started.works = {gloo.gather(lists, given, options)};
      break;
    }
    case OpType::SCATTER: {
      auto options = with<c10d::ScatterOptions>(timeout);
      options.rootRank = call.root;
      std::vector<Tensors> lists;
      if (gloo.getRank() == call.root) {
        lists.push_back(given);
      }
      started.works = {gloo.scatter(taken, lists, options)};
      break;
    }
    case OpType::ALLTOALL: {
      const auto counts = [](const Tensors& pieces) {
        std::vector<int64_t> counts;
        for (const auto& piece : pieces) {
          counts.push_back(piece.numel());
        }
        return counts;
      };
      auto to = counts(taken);
      auto from = counts(given);
      auto sent = at::cat(given);
      auto got = at::cat(taken);
      taken = rows(got, to);
      started.works = {gloo.alltoall_base(got, sent, to, from, with<c10d::AllToAllOptions>(timeout))};
      break;
    }
    case OpType::SEND:
      started.works = {gloo.send(given, call.root, call.tag)};
      break;
    case OpType::RECV:
      started.works = {gloo.recv(taken, call.root, call.tag)};
      break;
    case OpType::RECVANYSOURCE:
      started.works = {gloo.recvAnysource(taken, call.tag)};
      break;
    default:
      started.works = {gloo.barrier(with<c10d::BarrierOptions>(timeout))};
  }
  started.land = [call, taken, given] {
    for (size_t at = 0; at < call.outputs.size(); ++at) {
      const auto& output = call.outputs[at];
      output.copy_(taken[at].view(output.scalar_type()).reshape(output.sizes()));
    }
  };
  return started;
}

bool is_reduction(OpType operation) {
  return operation == OpType::ALLREDUCE || operation == OpType::REDUCE || operation == OpType::REDUCE_SCATTER;
}

} // namespace

std::function<int()> start_by_gloo(c10d::Backend& gloo, const Call& call, Milliseconds timeout) {
  auto started = is_reduction(call.operation) ? reduce(gloo, call, timeout) : move(gloo, call, timeout);
  return [started, timeout, is_received = call.operation == OpType::RECV || call.operation == OpType::RECVANYSOURCE] {
    for (const auto& work : started.works) {
      work->wait(timeout);
    }
    started.land();
    return is_received ? started.works.front()->sourceRank() : -1;
  };
}

} // namespace spyreccl
