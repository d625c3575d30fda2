// Sparse tensors: indices and values are tensors of the device, and PyTorch's kernels work on those with other ops.
// What PyTorch has for one device only is composed here, or done on the CPU (fallback.cpp).
#include "borrowed.h"
#include "spyre.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>

namespace spyre {
namespace {

using at::Tensor;
using at::sparse::get_sparse_impl;
using torch::jit::Stack;

// COO: places are counted along all sparse dims.

std::vector<int64_t> sparse_sizes(const Tensor& sparse) {
  const auto sizes = sparse.sizes().slice(0, sparse.sparse_dim());
  return sizes.vec();
}

int64_t product(c10::ArrayRef<int64_t> sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) {
    all *= size;
  }
  return all;
}

// The number of each place in a tensor of these sizes that lies row by row.
Tensor numbers_of(const Tensor& indices, c10::ArrayRef<int64_t> sizes) {
  Tensor numbers = at::zeros({indices.size(1)}, indices.options());
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    numbers = numbers * sizes[dim] + indices.select(0, static_cast<int64_t>(dim));
  }
  return numbers;
}

// A tensor's elements as one row for each sparse place.
Tensor as_rows(const Tensor& dense, const Tensor& sparse) {
  const auto sizes = sparse_sizes(sparse);
  std::vector<int64_t> shape{product(sizes)};
  const auto rest = dense.sizes().slice(sparse.sparse_dim());
  shape.insert(shape.end(), rest.begin(), rest.end());
  return dense.reshape(shape);
}

Tensor make_sparse(const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool is_coalesced) {
  return at::_sparse_coo_tensor_unsafe(indices.contiguous(), values, sizes, values.options().layout(at::kSparse),
                                       is_coalesced);
}

// Sums of rows that go to the same place; a sum of truth values is true where one is.
Tensor summed(const Tensor& values, const Tensor& places, int64_t count) {
  std::vector<int64_t> shape(values.sizes().begin(), values.sizes().end());
  shape[0] = count;
  if (values.scalar_type() == at::kBool) {
    return at::zeros(shape, values.options().dtype(at::kInt)).index_add_(0, places, values.to(at::kInt)).ne(0);
  }
  return at::zeros(shape, values.options()).index_add_(0, places, values);
}

Tensor coalesce(const Tensor& self) {
  if (self._nnz() < 2) {
    return self.clone()._coalesced_(true);
  }
  const Tensor indices = self._indices();
  const auto [numbers, order] = numbers_of(indices, sparse_sizes(self)).sort();
  const Tensor is_new = at::cat({at::ones({1}, numbers.options().dtype(at::kBool)),
                                 numbers.slice(0, 1).ne(numbers.slice(0, 0, -1))});
  const Tensor places = is_new.cumsum(0) - 1;
  const int64_t count = places.select(0, -1).item<int64_t>() + 1;
  const Tensor values = summed(self._values().index_select(0, order), places, count);
  const Tensor first = order.masked_select(is_new);
  return make_sparse(indices.index_select(1, first), values, self.sizes(), true);
}

// Gives a sparse tensor what another is.
void assign(const Tensor& target, const Tensor& source) {
  auto* impl = get_sparse_impl(target);
  impl->raw_resize_(source.sparse_dim(), source.dense_dim(), source.sizes());
  impl->set_indices_and_values_unsafe(source._indices(), source._values().to(target.scalar_type()));
  impl->set_coalesced(source.is_coalesced());
}

void check_cast(const Tensor& out, at::ScalarType common) {
  TORCH_CHECK(at::can_cast(common, out.scalar_type()), "Can't convert result type ", common, " to output ",
              out.scalar_type());
}

Tensor scaled(const Tensor& values, const at::Scalar& alpha) {
  const bool is_one = !alpha.isComplex() && alpha.equal(1);
  return is_one ? values : values * alpha;
}

Tensor& add_to_dense(const Tensor& self, const Tensor& other, const at::Scalar& alpha, Tensor& out) {
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ",
              self.sizes(), " while other has size ", other.sizes(), " (FYI: op2-sparse addition does not currently "
              "support broadcasting)");
  if (!out.is_same(self)) {
    at::native::resize_output(out, self.sizes());
    out.copy_(self);
  }
  if (other._nnz() == 0 || out.numel() == 0) {
    return out;
  }
  const Tensor values = scaled(other._values().to(at::result_type(self, other)), alpha).to(out.scalar_type());
  const Tensor places = numbers_of(other._indices(), sparse_sizes(other));
  const Tensor rows = as_rows(out.is_contiguous() ? out : out.contiguous(), other);
  if (out.scalar_type() == at::kBool) {
    rows.logical_or_(summed(values, places, rows.size(0)));
  } else {
    rows.index_add_(0, places, values);
  }
  if (!out.is_contiguous()) {
    out.copy_(rows.view(out.sizes()));
  }
  return out;
}

Tensor& add_out(const Tensor& self, const Tensor& other, const at::Scalar& alpha, Tensor& out) {
  TORCH_CHECK(!self.is_sparse() || other.is_sparse(),
              "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  const auto common = at::result_type(self, other);
  check_cast(out, common);
  TORCH_CHECK(self.device() == other.device() && out.device() == self.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(),
              " and ", other.device(), "!");
  if (!self.is_sparse()) {
    return add_to_dense(self, other, alpha, out);
  }
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim() && self.dense_dim() == other.dense_dim(),
              "add: expected 'self' and 'other' to have the same number of sparse and dense dims");
  const Tensor values = at::cat({self._values().to(common), scaled(other._values().to(common), alpha)});
  const Tensor sum = make_sparse(at::cat({self._indices(), other._indices()}, 1), values, self.sizes(), false);
  assign(out, self.is_coalesced() && other.is_coalesced() ? coalesce(sum) : sum);
  return out;
}

// Products.

Tensor product_of_both(const Tensor& self, const Tensor& other, at::ScalarType common) {
  const Tensor left = self.coalesce();
  const Tensor right = other.coalesce();
  const auto sizes = sparse_sizes(left);
  if (left._nnz() == 0 || right._nnz() == 0) {
    return make_sparse(left._indices().slice(1, 0, 0), left._values().slice(0, 0, 0).to(common), self.sizes(), true);
  }
  const Tensor wanted = numbers_of(left._indices(), sizes);
  const Tensor there = numbers_of(right._indices(), sizes);
  const Tensor places = at::searchsorted(there, wanted).clamp_max(there.size(0) - 1);
  const Tensor found = there.index_select(0, places).eq(wanted).nonzero().select(1, 0);
  const Tensor values = left._values().index_select(0, found).to(common) *
      right._values().index_select(0, places.index_select(0, found)).to(common);
  return make_sparse(left._indices().index_select(1, found), values, self.sizes(), true);
}

Tensor product_with_dense(const Tensor& sparse, const Tensor& dense, at::ScalarType common) {
  if (dense.dim() == 0) {
    return make_sparse(sparse._indices(), (sparse._values() * dense).to(common), sparse.sizes(),
                       sparse.is_coalesced());
  }
  const Tensor rows = as_rows(dense.expand(sparse.sizes()), sparse);
  const Tensor places = numbers_of(sparse._indices(), sparse_sizes(sparse));
  const Tensor values = sparse._values().to(common) * rows.index_select(0, places).to(common);
  return make_sparse(sparse._indices(), values, sparse.sizes(), sparse.is_coalesced());
}

Tensor& mul_out(const Tensor& self, const Tensor& other, Tensor& out) {
  const auto common = at::result_type(self, other);
  check_cast(out, common);
  if (!self.is_sparse() || !other.is_sparse()) {
    const Tensor& sparse = self.is_sparse() ? self : other;
    const Tensor& dense = self.is_sparse() ? other : self;
    TORCH_CHECK(dense.dim() == 0 || dense.device() == sparse.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", dense.device(),
                " and ", sparse.device(), "!");
    TORCH_CHECK_NOT_IMPLEMENTED(at::infer_size(sparse.sizes(), dense.sizes()) == sparse.sizes().vec(),
                                "mul of a sparse tensor on spyre does not repeat it to the shape ", dense.sizes(),
                                ": use to_dense() first");
    assign(out, product_with_dense(sparse, dense, common));
    return out;
  }
  TORCH_CHECK(self.sizes() == other.sizes() && self.sparse_dim() == other.sparse_dim(),
              "mul: expected 'self' and 'other' to have same sizes and sparse dims, but ", self.sizes(), " != ",
              other.sizes());
  assign(out, product_of_both(self, other, common));
  return out;
}

// Rows of a matrix that are the sums of another's, weighed by a sparse one.
Tensor matrix_product(const Tensor& sparse, const Tensor& dense) {
  TORCH_CHECK(sparse.dim() == 2 && dense.dim() == 2, "expected matrices, got ", sparse.dim(), "D and ", dense.dim(),
              "D tensors");
  TORCH_CHECK(sparse.size(1) == dense.size(0), "mat1 and mat2 shapes cannot be multiplied (", sparse.size(0), "x",
              sparse.size(1), " and ", dense.size(0), "x", dense.size(1), ")");
  TORCH_CHECK(sparse.scalar_type() == dense.scalar_type(), "expected mat1 and mat2 to have the same dtype, but got: ",
              sparse.scalar_type(), " != ", dense.scalar_type());
  TORCH_CHECK(sparse.device() == dense.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", sparse.device(),
              " and ", dense.device(), "!");
  TORCH_CHECK(sparse.dense_dim() == 0, "addmm: expected a sparse matrix without dense dims, got ", sparse.dense_dim());
  const Tensor indices = sparse._indices();
  const Tensor rows = dense.index_select(0, indices.select(0, 1)) * sparse._values().unsqueeze(1);
  return summed(rows, indices.select(0, 0), sparse.size(0));
}

Tensor as_coo(const Tensor& tensor) {
  return tensor.is_sparse() ? tensor : tensor.to_sparse();
}

bool is_sparse(const Tensor& tensor) {
  return tensor.layout() != at::kStrided;
}

Tensor matrix_sum(const Tensor& self, const Tensor& first, const Tensor& second, const at::Scalar& beta,
             const at::Scalar& alpha) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_sparse(self) && is_sparse(first) != is_sparse(second),
                              "addmm on spyre adds the product of a sparse and a dense matrix to a dense one, not ",
                              first.layout(), " times ", second.layout(), " to ", self.layout(),
                              ": use to_dense() first");
  const Tensor made = is_sparse(first) ? matrix_product(as_coo(first), second)
                                       : matrix_product(as_coo(second).t(), first.t()).t();
  const Tensor result = scaled(made, alpha);
  const bool has_self = beta.isComplex() || !beta.equal(0);
  return has_self ? scaled(self, beta) + result : result.expand(at::infer_size(self.sizes(), result.sizes()));
}

Tensor& addmm_(Tensor& self, const Tensor& first, const Tensor& second, const at::Scalar& beta,
               const at::Scalar& alpha) {
  return self.copy_(matrix_sum(self, first, second, beta, alpha));
}

Tensor vector_sum(const Tensor& self, const Tensor& matrix, const Tensor& vector, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  const Tensor all = self.expand({matrix.size(0)}).unsqueeze(1);
  return matrix_sum(all, matrix, vector.unsqueeze(1), beta, alpha).squeeze(1);
}

Tensor batch_product(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(!other.is_sparse(), "bmm_sparse: Tensor 'mat2' must be dense");
  TORCH_CHECK(self.dim() == 3 && other.dim() == 3 && self.sparse_dim() == 3, "bmm_sparse: Tensors must be 3D");
  TORCH_CHECK(self.size(0) == other.size(0) && self.size(2) == other.size(1),
              "bmm_sparse: shapes ", self.sizes(), " and ", other.sizes(), " do not fit");
  const Tensor indices = self._indices();
  const Tensor batch = indices.select(0, 0);
  const Tensor rows = other.reshape({-1, other.size(2)})
                          .index_select(0, batch * other.size(1) + indices.select(0, 2)) *
      self._values().unsqueeze(1);
  return summed(rows, batch * self.size(1) + indices.select(0, 1), self.size(0) * self.size(1))
      .view({self.size(0), self.size(1), other.size(2)});
}

// The form of a function that writes its result into a dense tensor.
template <auto function>
struct Stored;

template <typename... Given, Tensor (*function)(Given...)>
struct Stored<function> {
  static Tensor& out(Given... given, Tensor& out) {
    const Tensor result = function(given...);
    TORCH_CHECK_NOT_IMPLEMENTED(!is_sparse(out), "addmm on spyre writes dense results only: use to_dense() first");
    at::native::resize_output(out, result.sizes());
    return out.copy_(result);
  }
};

// Elements of a tensor at the places of another.
Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
              self.sizes(), " but mask has size ", mask.sizes());
  const Tensor dense = is_sparse(self) ? self.to_dense() : self;
  if (!mask.is_sparse()) {
    return sparse_mask(dense, mask.to_sparse()).to_sparse(mask.layout());
  }
  const Tensor values = as_rows(dense, mask).index_select(0, numbers_of(mask._indices(), sparse_sizes(mask)));
  return make_sparse(mask._indices().clone(), values, mask.sizes(), mask.is_coalesced());
}

bool is_pinned(const Tensor&, std::optional<c10::Device>) {
  return false;
}

Tensor& add_compressed_out(const Tensor& self, const Tensor& other, const at::Scalar& alpha, Tensor& out) {
  const auto plain = [](const Tensor& tensor) { return is_sparse(tensor) ? as_coo(tensor) : tensor; };
  TORCH_CHECK(!is_sparse(self) || is_sparse(other),
              "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  if (!is_sparse(self)) {
    return add_to_dense(self, plain(other), alpha, out);
  }
  Tensor sum = at::empty({0}, plain(self).options().dtype(out.scalar_type()));
  add_out(plain(self).coalesce(), plain(other).coalesce(), alpha, sum);
  const Tensor result = sum.to_sparse(out.layout());
  const auto* impl = at::sparse_csr::get_sparse_csr_impl(result);
  at::sparse_csr::get_sparse_csr_impl(out)->set_member_tensors(impl->compressed_indices(), impl->plain_indices(),
                                                               impl->values(), result.sizes());
  return out;
}

// Compressed rows as columns, and the other way, by way of coordinates.
template <at::Layout layout>
Tensor compressed(const Tensor& self, std::optional<int64_t>) {
  return self.layout() == layout ? self.clone() : self.to_sparse().to_sparse(layout);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  borrow<c10::DispatchKey::SparseCPU>(m, SpyreFlag::BorrowsSparse);
  m.impl("_coalesce", TORCH_FN(coalesce));
  m.impl("add.out", TORCH_FN(add_out));
  m.impl("mul.out", TORCH_FN(mul_out));
  m.impl("addmm", TORCH_FN(matrix_sum));
  m.impl("addmm.out", TORCH_FN(Stored<matrix_sum>::out));
  m.impl("addmm_", TORCH_FN(addmm_));
  m.impl("bmm", TORCH_FN(batch_product));
  m.impl("bmm.out", TORCH_FN(Stored<batch_product>::out));
  m.impl("sparse_mask", TORCH_FN(sparse_mask));
  m.impl("is_pinned", TORCH_FN(is_pinned));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  borrow<c10::DispatchKey::SparseCsrCPU>(m, SpyreFlag::BorrowsCompressed);
  m.impl("add.out", TORCH_FN(add_compressed_out));
  m.impl("addmm.out", TORCH_FN(Stored<matrix_sum>::out));
  m.impl("addmv.out", TORCH_FN(Stored<vector_sum>::out));
  m.impl("_to_sparse_csr", TORCH_FN(compressed<at::kSparseCsr>));
  m.impl("_to_sparse_csc", TORCH_FN(compressed<at::kSparseCsc>));
  m.impl("sparse_mask", TORCH_FN(sparse_mask));
  m.impl("is_pinned", TORCH_FN(is_pinned));
}

// From dense tensors. Places come column by column, and kernels of the CPU rely on rows.
void to_sparse(const c10::OperatorHandle& op, Stack* stack) {
  borrowed<c10::DispatchKey::CPU>(op, stack);
  const Tensor made = stack->back().toTensor();
  if (made.is_sparse() && !made._indices().is_contiguous()) {
    stack->back() = make_sparse(made._indices(), made._values(), made.sizes(), made.is_coalesced());
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_to_sparse", torch::CppFunction::makeFromBoxedFunction<&to_sparse>());
  m.impl("_to_sparse.sparse_dim", torch::CppFunction::makeFromBoxedFunction<&to_sparse>());
  for (const char* op : {"_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&borrowed<c10::DispatchKey::CPU>>());
  }
}

} // namespace
} // namespace spyre
