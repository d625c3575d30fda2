// Ops that the card carries out: how calls are handed to the Rust side.
#pragma once

#include "spyre.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string_view>

extern "C" {

// A status beside `SpyreStatus`: the written tensors are to be resized to the first result's shape.
constexpr int32_t SPYRE_RESIZE = 8;

enum SpyreArgumentKind : int32_t {
  SPYRE_NONE = 0,
  SPYRE_TENSOR = 1,
  SPYRE_TENSORS = 2,
  SPYRE_INT = 3,
  SPYRE_FLOAT = 4,
  SPYRE_BOOL = 5,
  SPYRE_INTS = 6,
  SPYRE_FLOATS = 7,
  SPYRE_BOOLS = 8,
  SPYRE_STRING = 9,
  SPYRE_RANDOM = 10,
};
// An argument. `list` leads to views, numbers or a text; a view with a negative `dim` is no tensor.
// `dtype` is that of a tensor of the host that is taken for a number, else -1. Random numbers are a seed
// (`integer`) and an offset (`count`).
struct SpyreArgument {
  int32_t kind;
  int32_t dtype;
  int64_t count;
  int64_t integer;
  double real;
  double imaginary;
  const void* list;
};
struct SpyreCall {
  int32_t op;
  int32_t device;
  const SpyreArgument* arguments;
  int64_t count;
  const int64_t* written;
  int64_t written_count;
  int32_t default_dtype;
};
// A tensor to be made; it is the calling thread's until its next call.
struct SpyreResult {
  int32_t dtype;
  int64_t dim;
  const int64_t* sizes;
  const int64_t* strides;
};
// The name of an op, without its namespace; null past the last.
const char* spyre_op_name(int32_t op);
// Carries a call out, or says which results are to be made for it, or that there is no kernel for it.
int32_t spyre_call(const SpyreCall* call, SpyreResult* results, int64_t* count);
int32_t spyre_call_with(const SpyreCall* call, const SpyreView* results, int64_t count);
}

namespace spyre {

using Results = c10::SmallVector<at::Tensor, 2>;

// Whether a value is a list of tensors, of which some may be missing. TorchScript's lists do not say so by their type.
inline bool is_tensors(const c10::IValue& value) {
  if (value.isTensorList() || value.isOptionalTensorList()) {
    return true;
  }
  if (!value.isList() || value.isIntList() || value.isDoubleList() || value.isBoolList()) {
    return false;
  }
  for (const auto& item : value.toListRef()) {
    if (!item.isTensor() && !item.isNone()) {
      return false;
    }
  }
  return true;
}

// Calls `act` with every tensor of such a list; one that is missing is undefined.
template <typename Act>
void each_of(const c10::IValue& list, Act act) {
  for (const auto& item : list.toListRef()) {
    act(item.isTensor() ? item.toTensor() : at::Tensor());
  }
}

// The generator of a device that is used where none is given.
const at::Generator& default_generator(c10::Device device);

// The number of an op of the Rust side.
int32_t op_named(std::string_view name);

// Carries an op out that is no op of PyTorch: what it makes, or nothing if there is no kernel for it. A
// generator among the arguments gives it random numbers.
std::optional<Results> call_native(int32_t op, c10::ArrayRef<c10::IValue> given,
                                   at::IntArrayRef written = {});

} // namespace spyre
