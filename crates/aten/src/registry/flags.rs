/// Property of an overload that its callers have to know.
///
/// The numbers are bits of a word: `SpyreFlag` in `csrc/operators.h` has them, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flag {
    /// Takes indices or other arguments from the CPU, whatever their shape.
    MixedDevices = 0,
    /// Fills its tensor with random numbers, and reads nothing of it.
    Fills = 1,
    /// Gives a result its shape without PyTorch's warning.
    SilentResize = 2,
    /// Fills a result of any shape that has as many elements, and warns in words of its own.
    Range = 3,
    /// Has results whose length is counted on the card.
    Counted = 4,
    /// Has a typed kernel beside the boxed one, since programs call it most.
    Hot = 5,
    /// Refuses results that share memory with what it is given.
    Apart = 6,
    /// Refuses results of another dtype, where most operators convert.
    ExactDType = 7,
    /// Lays a result that it resizes in rows, however it lays one that it makes.
    Rows = 8,
    /// Has a kernel of PyTorch's for all devices, in whose place the fallback stands.
    Replaced = 9,
    /// Takes PyTorch's kernel for sparse tensors of the CPU, which is made of other operators.
    BorrowsSparse = 10,
    /// Takes PyTorch's kernel for compressed sparse tensors of the CPU, for the same reason.
    BorrowsCompressed = 11,
    /// Takes PyTorch's kernel for nested tensors of the CPU, for the same reason.
    BorrowsNested = 12,
}

impl Flag {
    /// Every flag.
    pub const ALL: [Self; 13] = [
        Self::MixedDevices,
        Self::Fills,
        Self::SilentResize,
        Self::Range,
        Self::Counted,
        Self::Hot,
        Self::Apart,
        Self::ExactDType,
        Self::Rows,
        Self::Replaced,
        Self::BorrowsSparse,
        Self::BorrowsCompressed,
        Self::BorrowsNested,
    ];

    /// The bit of the flag.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Names that have each flag. `index.*` stands for all overloads of `index`.
pub(super) const FLAGS: &[(Flag, &str)] = &[
    (
        Flag::MixedDevices,
        "index.* _unsafe_index.* index_put.* index_put_.* _index_put_impl_.* _unsafe_index_put.* \
         _index_put_impl.* _foreach_add.* _foreach_add_.* _foreach_mul.* _foreach_mul_.* \
         _foreach_div.* _foreach_div_.* _foreach_addcdiv.* _foreach_addcdiv_.* \
         _foreach_addcmul.* _foreach_addcmul_.* _fused_adam_.* _fused_adamw_.* _fused_sgd_.* \
         _fused_adagrad_.* _amp_foreach_non_finite_check_and_unscale_.*",
    ),
    (
        Flag::Fills,
        "uniform_.* normal_.* random_.* exponential_.* geometric_.* cauchy_.* log_normal_.*",
    ),
    (Flag::SilentResize, "log_sigmoid_forward.* addbmm.out"),
    (Flag::Range, "arange.*"),
    (Flag::Counted, "nonzero nonzero.out masked_select masked_select.out masked_scatter_"),
    (
        Flag::Hot,
        "add.Tensor add_.Tensor sub.Tensor sub_.Tensor mul.Tensor mul_.Tensor div.Tensor \
         div_.Tensor cos exp neg reciprocal rsqrt sigmoid silu sin sqrt tanh",
    ),
    (Flag::Apart, "kthvalue.values take.out"),
    (Flag::ExactDType, "aminmax.out complex.out polar.out"),
    (Flag::Rows, "_fft_c2c.out _fft_c2r.out _fft_r2c.out cholesky.out"),
    // The first ones round less on the CPU. The others read or write at an address, which is not the
    // host's, or ask for one of the devices that they know; windows are filled by a kernel of each device.
    (
        Flag::Replaced,
        "addr addr.out linalg__powsum \
         _saturate_weight_to_fp16 choose_qparams_optimized mode.values range.out_ \
         kaiser_window kaiser_window.periodic kaiser_window.beta",
    ),
    (Flag::BorrowsSparse, UNARY),
    (Flag::BorrowsCompressed, UNARY),
    (
        Flag::BorrowsSparse,
        "view_as_real view_as_complex conj_physical.out add.Tensor add_.Tensor \
         _sparse_broadcast_to cat copy_ div.Tensor div_.Tensor div.out \
         div.Tensor_mode div_.Tensor_mode div.out_mode empty.memory_format empty_like \
         floor_divide floor_divide_.Tensor floor_divide.out isnan nan_to_num \
         nan_to_num_ nan_to_num.out mm mm.out mul.Tensor mul_.Tensor mv narrow_copy \
         permute relu relu_ sum sum.dim_IntList threshold_backward.grad_input \
         threshold_backward unsqueeze zeros.out native_norm \
         native_norm.ScalarOpt_dim_dtype norm.ScalarOpt_dim_dtype norm.ScalarOpt_dim \
         clone resize_as_sparse_ zero_ sub.out sub.Tensor sub_.Tensor \
         _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors \
         sparse_resize_ sparse_resize_and_clear_ _to_dense sparse_dim _dimI dense_dim \
         _dimV _nnz is_coalesced _indices _values _coalesced_ indices values \
         copy_sparse_to_sparse_ _to_sparse.sparse_dim _to_sparse _to_sparse_csr \
         _to_sparse_csc signbit signbit.out any pow.Tensor_Scalar_out \
         pow.Tensor_Scalar isinf isposinf isposinf.out isneginf isneginf.out",
    ),
    (
        Flag::BorrowsCompressed,
        "angle angle.out _conj_physical conj_physical.out conj_physical_ add.Tensor \
         add_.Tensor copy_ empty.memory_format resize_ empty_like fill_.Scalar isnan \
         mm mm.out mul.Tensor mul_.Tensor mul.out mul.Scalar mul_.Scalar relu relu_ \
         select.int select_copy.int sum sum.dim_IntList threshold_backward.grad_input \
         threshold_backward clone resize_as_sparse_ zero_ addmm _to_dense sparse_dim \
         dense_dim _nnz values crow_indices col_indices ccol_indices row_indices \
         _to_sparse.sparse_dim _to_sparse signbit signbit.out normal_ isinf isposinf \
         isposinf.out isneginf isneginf.out",
    ),
    (
        Flag::BorrowsNested,
        "native_dropout native_dropout_backward abs abs_ sgn sgn_ add.Tensor \
         add_.Tensor all.dim logical_not logical_not_ bmm cat chunk copy_ cos \
         div.Tensor div.Scalar embedding empty_like fill_.Scalar fill_.Tensor isnan \
         is_same_size linear linear_backward matmul matmul_backward matmul.out \
         value_selecting_reduction_backward mul.Tensor mul_.Tensor mul.Scalar \
         mul_.Scalar narrow ones_like neg neg_ relu relu_ gelu gelu_ gelu_backward \
         select.int _nested_select_backward silu silu_ silu_backward sin detach \
         _softmax _softmax_backward_data split_with_sizes squeeze squeeze.dim \
         squeeze.dims sqrt tanh tanh_ threshold_backward transpose.int \
         _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets \
         _nested_from_padded_and_nested_example unsqueeze where.self where.self_out \
         clone zero_ sub.Tensor values unbind.int _to_copy masked_fill.Scalar view \
         eq.Scalar eq.Tensor ge.Scalar gt.Scalar normal_ alias isinf isposinf \
         isneginf _safe_softmax to_padded_tensor _nested_tensor_softmax_with_shape \
         _transformer_encoder_layer_fwd _native_multi_head_attention",
    ),
];

/// Functions of each value of a sparse tensor, which keep zeros zero.
const UNARY: &str = "\
    abs abs_ abs.out asin asin_ asin.out asinh asinh_ asinh.out atan atan_ atan.out \
    atanh atanh_ atanh.out ceil ceil_ ceil.out deg2rad deg2rad_ deg2rad.out erf erf_ \
    erf.out erfinv erfinv_ erfinv.out expm1 expm1_ expm1.out floor floor_ floor.out \
    frac frac_ frac.out log1p log1p_ log1p.out neg neg_ neg.out rad2deg rad2deg_ \
    rad2deg.out round round_ round.out sgn sgn_ sgn.out sign sign_ sign.out sin sin_ \
    sin.out sinh sinh_ sinh.out sqrt sqrt_ sqrt.out tan tan_ tan.out tanh tanh_ \
    tanh.out trunc trunc_ trunc.out";
