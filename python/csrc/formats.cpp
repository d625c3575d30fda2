// Ops of images that PyTorch puts together from views: their results lie as their images do.
#include "spyre.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/native_channel_shuffle_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <torch/library.h>

namespace spyre {
namespace {

using at::Tensor;

Tensor as_it_lies(const Tensor& result, const Tensor& image) {
  return result.contiguous(image.suggest_memory_format());
}

Tensor channel_shuffle(const Tensor& self, c10::SymInt groups) {
  return as_it_lies(at::native::math_channel_shuffle(self, groups.expect_int()), self);
}

Tensor pixel_shuffle(const Tensor& self, int64_t factor) {
  return as_it_lies(at::native::math_pixel_shuffle(self, factor), self);
}

Tensor pixel_unshuffle(const Tensor& self, int64_t factor) {
  return as_it_lies(at::native::math_pixel_unshuffle(self, factor), self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("channel_shuffle", TORCH_FN(channel_shuffle));
  m.impl("pixel_shuffle", TORCH_FN(pixel_shuffle));
  m.impl("pixel_unshuffle", TORCH_FN(pixel_unshuffle));
}

} // namespace
} // namespace spyre
