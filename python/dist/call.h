// Collectives as the backend asks for them: what is read, what is written, and how.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <string>
#include <utility>
#include <vector>

namespace spyreccl {

using Tensors = std::vector<at::Tensor>;
using Milliseconds = std::chrono::milliseconds;
template <typename T>
using Ref = c10::intrusive_ptr<T>;

constexpr c10::DeviceType kSpyre = c10::DeviceType::PrivateUse1;

// A collective over chunks: where it takes or makes one per rank, there is a tensor per rank.
struct Call {
  c10d::OpType operation = c10d::OpType::UNKNOWN;
  Tensors inputs;
  Tensors outputs;
  c10d::ReduceOp reduction = c10d::ReduceOp::SUM;
  // Rank that data comes from or goes to; -1 if there is none, or any.
  int root = -1;
  int tag = 0;
};

// Rows of a tensor that is one piece, for each rank as many as it is given.
inline Tensors rows(const at::Tensor& whole, const std::vector<int64_t>& counts) {
  Tensors parts;
  int64_t start = 0;
  for (const auto count : counts) {
    parts.push_back(whole.narrow(0, start, count));
    start += count;
  }
  return parts;
}

// All elements in one row.
inline at::Tensor flat(const at::Tensor& tensor) {
  return tensor.reshape({-1});
}

// Number that every element is multiplied by before it is summed.
inline double factor_of(const c10d::ReduceOp& reduction) {
  if (reduction != c10d::ReduceOp::PREMUL_SUM) {
    return 1;
  }
  const auto* supplement = reinterpret_cast<const c10d::PreMulSumSupplement*>(reduction.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "PREMUL_SUM has no factor: make it by torch.distributed._make_nccl_premul_sum");
  const auto& tensor = supplement->tensor_factor;
  return tensor.defined() ? tensor.item<double>() : supplement->double_factor;
}

} // namespace spyreccl
