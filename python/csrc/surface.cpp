// The public ops of the plug-in, `torch.ops.spyre.*`. Each is made of PyTorch's own: so it runs on every device
// and on tensors that only have a shape, has a gradient, and is traced as what it is made of.
#include "operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

namespace spyre {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;
using c10::ScalarType;
using c10::SymInt;
using c10::SymIntArrayRef;
using MaybeTensor = std::optional<Tensor>;

constexpr double kLargestFp8 = 448;

// Small floats are computed with in single precision.
Tensor widened(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

// A norm in the card's three steps.

// Of each row the mean and the mean of squares, as two elements.
Tensor exx2(const Tensor& self, std::optional<double> scale, bool use_zero_mean) {
  TORCH_CHECK(self.dim() > 0, "exx2: the tensor has no rows: it has no dims");
  const Tensor wide = widened(self);
  const auto sum = [&](const Tensor& tensor) {
    return scale.has_value() ? tensor.sum(-1) * *scale : tensor.mean(-1);
  };
  const Tensor squares = sum(wide * wide);
  return at::stack({use_zero_mean ? at::zeros_like(squares) : sum(wide), squares}, -1);
}

Tensor layernormscale(const Tensor& exx2, double eps) {
  TORCH_CHECK(exx2.dim() > 0 && exx2.size(-1) == 2, "layernormscale: give what exx2 made, two elements of a row");
  const Tensor mean = exx2.narrow(-1, 0, 1);
  return (exx2.narrow(-1, 1, 1) - mean * mean + eps).rsqrt();
}

Tensor layernormnorm(const Tensor& self, const Tensor& exx2, const Tensor& scale, const MaybeTensor& weight,
                     const MaybeTensor& bias) {
  Tensor norm = (widened(self) - exx2.narrow(-1, 0, 1)) * scale;
  norm = weight.has_value() && weight->defined() ? norm * *weight : norm;
  norm = bias.has_value() && bias->defined() ? norm + *bias : norm;
  return norm.to(self.scalar_type());
}

// Writes into a part of a tensor.

Tensor part_of(const Tensor& output, const Tensor& input, IntArrayRef dims, SymIntArrayRef offsets) {
  TORCH_CHECK(dims.size() == offsets.size(), "overwrite: give an offset for each dim: there are ", dims.size(),
              " dims and ", offsets.size(), " offsets");
  TORCH_CHECK(input.dim() == output.dim(), "overwrite: the input has ", input.dim(), " dims and the output ",
              output.dim());
  Tensor part = output;
  for (size_t at = 0; at < dims.size(); ++at) {
    const auto dim = at::maybe_wrap_dim(dims[at], output.dim());
    const SymInt& offset = offsets[at];
    const SymInt end = offset + input.sym_size(dim);
    TORCH_SYM_CHECK(offset.sym_ge(0), "overwrite: the offset of dim ", dim, " is ", offset, ": give 0 or more");
    TORCH_SYM_CHECK(end.sym_le(output.sym_size(dim)), "overwrite: dim ", dim, " would be written up to ", end,
                    ", and the output has ", output.sym_size(dim), " places there");
    part = part.narrow_symint(dim, offset, input.sym_size(dim));
  }
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    TORCH_SYM_CHECK(part.sym_size(dim).sym_eq(input.sym_size(dim)), "overwrite: dim ", dim, " of the input has ",
                    input.sym_size(dim), " places and that of the output ", part.sym_size(dim),
                    ": name it in dims to write a part of it");
  }
  return part;
}

void overwrite(const Tensor& input, const Tensor& output, IntArrayRef dims, SymIntArrayRef offsets) {
  part_of(output, input, dims, offsets).copy_(input);
}

Tensor overwrite_f(const Tensor& input, const Tensor& output, IntArrayRef dims, SymIntArrayRef offsets) {
  Tensor written = output.clone();
  part_of(written, input, dims, offsets).copy_(input);
  return written;
}

void copy_from_d2d(const Tensor& source, const Tensor& target) {
  TORCH_CHECK(source.device().type() == target.device().type(), "copy_from_d2d: the source is on '",
              source.device(), "' and the target on '", target.device(), "': use copy_");
  target.copy_(source);
}

Tensor reshape_via_cpu(const Tensor& self, SymIntArrayRef shape) {
  return self.clone(at::MemoryFormat::Contiguous).view_symint(shape);
}

// Tensors that are made.

c10::Device device_or_ours(std::optional<c10::Device> device) {
  return device.value_or(c10::Device(kSpyre));
}

ScalarType dtype_of(const Scalar& value) {
  if (value.isFloatingPoint() || value.isComplex()) {
    return value.isComplex() ? at::toComplexType(c10::get_default_dtype_as_scalartype())
                             : c10::get_default_dtype_as_scalartype();
  }
  return value.isBoolean() ? at::kBool : at::kLong;
}

Tensor empty(SymIntArrayRef size, std::optional<ScalarType> dtype, std::optional<c10::Device> device,
             std::optional<at::MemoryFormat> memory_format) {
  const auto options = at::TensorOptions().dtype(dtype).device(device_or_ours(device));
  return at::empty_symint(size, options, memory_format);
}

Tensor constant(const Scalar& value, std::optional<ScalarType> dtype, std::optional<c10::Device> device) {
  const auto options = at::TensorOptions().dtype(dtype.value_or(dtype_of(value))).device(device_or_ours(device));
  return at::scalar_tensor(value, options);
}

// Other dtypes.

Tensor to_dtype(const Tensor& self, ScalarType dtype) {
  return self.to(dtype, /*non_blocking=*/false, /*copy=*/true);
}

Tensor qfp8ch(const Tensor& self) {
  return self.to(at::kFloat8_e4m3fn);
}

// What is too large becomes the largest.
template <typename Scale>
Tensor quantize(const Tensor& self, const Scale& scale) {
  return (widened(self) / scale).clamp(-kLargestFp8, kLargestFp8).to(at::kFloat8_e4m3fn);
}

template <typename Scale>
Tensor dequantize(const Tensor& self, const Scale& scale, std::optional<ScalarType> dtype) {
  return (widened(self) * scale).to(dtype.value_or(at::kHalf));
}

// An op of PyTorch's under another name: all of its results, or one of them.
class AliasKernel final : public c10::OperatorKernel {
 public:
  explicit AliasKernel(const SpyreAlias& alias)
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow(alias.op, alias.overload)), result_(alias.result) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const auto& arguments = op_.schema().arguments();
    for (size_t at = op.schema().arguments().size(); at < arguments.size(); ++at) {
      stack->push_back(*arguments[at].default_value());
    }
    op_.callBoxed(stack);
    if (result_ >= 0) {
      stack->push_back(torch::jit::pop(*stack, op_.schema().returns().size())[result_]);
    }
  }

 private:
  c10::OperatorHandle op_;
  int32_t result_;
};

TORCH_LIBRARY_FRAGMENT(spyre, m) {
  SpyreAlias alias;
  for (int32_t number = 0; spyre_alias(number, &alias); ++number) {
    m.def(alias.schema, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AliasKernel>(alias)));
  }

  m.def("exx2(Tensor self, float? scale=None, bool use_zero_mean=False) -> Tensor", TORCH_FN(exx2));
  m.def("layernormscale(Tensor exx2, float eps=1e-05) -> Tensor", TORCH_FN(layernormscale));
  m.def("layernormnorm(Tensor self, Tensor exx2, Tensor scale, Tensor? weight=None, Tensor? bias=None) -> Tensor",
        TORCH_FN(layernormnorm));

  m.def("overwrite(Tensor input, Tensor(a!) output, int[] dims, SymInt[] offsets) -> ()", TORCH_FN(overwrite));
  m.def("overwrite_f(Tensor input, Tensor output, int[] dims, SymInt[] offsets) -> Tensor", TORCH_FN(overwrite_f));
  m.def("copy_from_d2d(Tensor src, Tensor(a!) dst) -> ()", TORCH_FN(copy_from_d2d));

  m.def("reshape_via_cpu(Tensor self, SymInt[] shape) -> Tensor", TORCH_FN(reshape_via_cpu));

  m.def("empty(SymInt[] size, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None)"
        " -> Tensor",
        TORCH_FN(empty));
  m.def("constant(Scalar value, ScalarType? dtype=None, Device? device=None) -> Tensor", TORCH_FN(constant));

  m.def("to_dtype_cpu(Tensor self, ScalarType dtype) -> Tensor", TORCH_FN(to_dtype));
  m.def("qfp8ch(Tensor self) -> Tensor", TORCH_FN(qfp8ch));
  m.def("quantize_fp8_with_scale(Tensor self, Tensor scale) -> Tensor", TORCH_FN(quantize<Tensor>));
  m.def("quantize_fp8_with_scale.Scalar(Tensor self, Scalar scale) -> Tensor", TORCH_FN(quantize<Scalar>));
  m.def("dequantize_fp8_with_scale(Tensor self, Tensor scale, ScalarType? dtype=None) -> Tensor",
        TORCH_FN(dequantize<Tensor>));
  m.def("dequantize_fp8_with_scale.Scalar(Tensor self, Scalar scale, ScalarType? dtype=None) -> Tensor",
        TORCH_FN(dequantize<Scalar>));
}

} // namespace
} // namespace spyre
