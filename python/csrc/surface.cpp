// The public ops of the plug-in, `torch.ops.spyre.*`. Each is made of PyTorch's own: so it runs on every device
// and on tensors that only have a shape, has a gradient, and is traced as what it is made of.
#include "spyre.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/im2col.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
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
using Pair = std::tuple<Tensor, Tensor>;
using MaybeTensor = std::optional<Tensor>;

constexpr double kLargestFp8 = 448;

// Small floats are computed with in single precision.
Tensor widened(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

// Elementwise functions.

Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  return at::softplus(self, beta, threshold);
}

Tensor gelu(const Tensor& self, c10::string_view approximate) {
  return at::gelu(self, approximate);
}

Tensor silu(const Tensor& self) {
  return at::silu(self);
}

Tensor clamp(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  return at::clamp(self, min, max);
}

Tensor logical_not(const Tensor& self) {
  return self.logical_not();
}

// Norms, whole and in the card's three steps.

Tensor layer_norm(const Tensor& input, SymIntArrayRef shape, const MaybeTensor& weight, const MaybeTensor& bias,
                  double eps) {
  return at::layer_norm_symint(input, shape, weight, bias, eps);
}

Tensor rms_norm(const Tensor& input, SymIntArrayRef shape, const MaybeTensor& weight, std::optional<double> eps) {
  return at::rms_norm_symint(input, shape, weight, eps);
}

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

// The largest along a dim.

Tensor topkvalue(const Tensor& self, SymInt k, int64_t dim, bool largest, bool sorted) {
  return std::get<0>(at::topk_symint(self, std::move(k), dim, largest, sorted));
}

Tensor topkindex(const Tensor& self, SymInt k, int64_t dim, bool largest, bool sorted) {
  return std::get<1>(at::topk_symint(self, std::move(k), dim, largest, sorted));
}

Pair max_dim(const Tensor& self, int64_t dim, bool keepdim) {
  return self.max(dim, keepdim);
}

Pair min_dim(const Tensor& self, int64_t dim, bool keepdim) {
  return self.min(dim, keepdim);
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

// Shapes and products.

Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return self.unfold(dimension, size, step);
}

Tensor unfold_images(const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation, IntArrayRef padding,
                     IntArrayRef stride) {
  return at::im2col(self, kernel_size, dilation, padding, stride);
}

Tensor reshape_via_cpu(const Tensor& self, SymIntArrayRef shape) {
  return self.clone(at::MemoryFormat::Contiguous).view_symint(shape);
}

Tensor batched_matmul(const Tensor& self, const Tensor& other) {
  return at::matmul(self, other);
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

TORCH_LIBRARY_FRAGMENT(spyre, m) {
  m.def("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", TORCH_FN(softplus));
  m.def("gelu(Tensor self, str approximate='none') -> Tensor", TORCH_FN(gelu));
  m.def("silu(Tensor self) -> Tensor", TORCH_FN(silu));
  m.def("clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", TORCH_FN(clamp));
  m.def("logical_not(Tensor self) -> Tensor", TORCH_FN(logical_not));

  m.def("layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None,"
        " float eps=1e-05) -> Tensor",
        TORCH_FN(layer_norm));
  m.def("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
        TORCH_FN(rms_norm));
  m.def("exx2(Tensor self, float? scale=None, bool use_zero_mean=False) -> Tensor", TORCH_FN(exx2));
  m.def("layernormscale(Tensor exx2, float eps=1e-05) -> Tensor", TORCH_FN(layernormscale));
  m.def("layernormnorm(Tensor self, Tensor exx2, Tensor scale, Tensor? weight=None, Tensor? bias=None) -> Tensor",
        TORCH_FN(layernormnorm));

  m.def("topkvalue(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> Tensor",
        TORCH_FN(topkvalue));
  m.def("topkindex(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> Tensor",
        TORCH_FN(topkindex));
  m.def("max_dim_int64_fallback(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        TORCH_FN(max_dim));
  m.def("min_dim_int64_fallback(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        TORCH_FN(min_dim));

  m.def("overwrite(Tensor input, Tensor(a!) output, int[] dims, SymInt[] offsets) -> ()", TORCH_FN(overwrite));
  m.def("overwrite_f(Tensor input, Tensor output, int[] dims, SymInt[] offsets) -> Tensor", TORCH_FN(overwrite_f));
  m.def("copy_from_d2d(Tensor src, Tensor(a!) dst) -> ()", TORCH_FN(copy_from_d2d));

  m.def("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", TORCH_FN(unfold));
  m.def("unfold.images(Tensor self, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1)"
        " -> Tensor",
        TORCH_FN(unfold_images));
  m.def("reshape_via_cpu(Tensor self, SymInt[] shape) -> Tensor", TORCH_FN(reshape_via_cpu));
  m.def("batched_matmul(Tensor self, Tensor other) -> Tensor", TORCH_FN(batched_matmul));

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
