// Ops of images that PyTorch puts together from views: their results lie as their images do.
#include "spyre.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/native_channel_shuffle_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <c10/util/strides.h>
#include <torch/library.h>

namespace spyre {
namespace {

using at::Tensor;

at::DimVector strides_of(at::IntArrayRef size, at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::ChannelsLast:
      return at::DimVector(c10::get_channels_last_strides_2d(size));
    case at::MemoryFormat::ChannelsLast3d:
      return at::DimVector(c10::get_channels_last_strides_3d(size));
    default:
      return c10::contiguous_strides(size);
  }
}

// Dims of one element have the format's strides, too.
Tensor as_it_lies(const Tensor& result, const Tensor& image) {
  const auto format = image.suggest_memory_format();
  return result.contiguous(format).as_strided(result.sizes(), strides_of(result.sizes(), format));
}

Tensor channel_shuffle(const Tensor& self, c10::SymInt groups) {
  // PyTorch's reshape cannot tell how large the channels of no images are.
  if (self.numel() == 0) {
    return at::empty_strided(self.sizes(), self.strides(), self.options());
  }
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
