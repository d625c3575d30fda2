//! The calls, a line each: ops, and what they are given. [`Line`](super::line::Line) tells how it is read.
//!
//! A kernel is for any extents. What it depends on is how many dims are left when those that lie behind
//! each other are joined, so one shape stands for many.

use spyre_numerics::DType::{self, BFloat16, Bool, Float16, Float32, Int64};

/// Lines that are for the same dtypes.
pub(super) struct Group(&'static str);

/// Groups of calls, and what `x` is in them.
pub(super) const DTYPES: &[(&Group, &[DType])] = &[
    (&FLOATS, &[Float32, Float16, BFloat16]),
    (&INTEGERS, &[Int64]),
    (&NUMBERS, &[Float32, Float16, BFloat16, Int64]),
    (&BOOLEANS, &[Bool]),
    (&PLACES, &[Float32, Float16, BFloat16, Int64, Bool]),
    (&SINGLES, &[Float32]),
];

impl Group {
    pub(super) fn lines(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.0.lines().map(str::trim).filter(|line| !line.is_empty())
    }
}

/// Arithmetic with a tensor of the same shape, with a row, with parts of a batch, and with a number.
const NUMBERS: Group = Group(
    "
    add.out sub.out | x:* x:* 1 =x:*
    add.out sub.out | x:4x64 x:64 1 =x:4x64
    add.out sub.out | x:2x4x64 x:2x1x64 1 =x:2x4x64
    add.out sub.out | x:* 2 1 =x:*
    sub.out | 2 x:* 1 =x:*
    mul.out maximum.out minimum.out | x:* x:* =x:*
    mul.out | x:4x64 x:64 =x:4x64
    mul.out | x:2x4x64 x:2x1x64 =x:2x4x64
    mul.out | x:* 2 =x:*
    neg.out abs.out | x:* =x:*
    rsub.Tensor | x:* 2 1
    clamp.out | x:* 0 - =x:*
    clamp.out | x:* 0 6 =x:*
    eq.Tensor_out ne.Tensor_out lt.Tensor_out le.Tensor_out gt.Tensor_out ge.Tensor_out | x:* x:* =b:*
    eq.Scalar_out ne.Scalar_out lt.Scalar_out le.Scalar_out gt.Scalar_out ge.Scalar_out | x:* 2 =b:*
    sum.IntList_out | x:4x64 [] false - =x:
    sum.IntList_out | x:4x64 [1] false - =x:4
    sum.IntList_out | x:4x64 [0] false - =x:64
    amax.out amin.out | x:4x64 [1] false =x:4
    argmax.out | x:4x64 1 false =i:4
    max | x:4x64
    cumsum.out | x:4x64 1 - =x:4x64
    ",
);

/// Calls that only floats have: functions, activations, normalised rows, products.
const FLOATS: Group = Group(
    "
    div.out | x:* x:* =x:*
    div.out | x:4x64 x:64 =x:4x64
    div.out | x:2x4x64 x:2x4x1 =x:2x4x64
    div.out pow.Tensor_Scalar_out | x:* 2.0 =x:*
    div.out | 2.0 x:* =x:*
    addcmul.out addcdiv.out | x:* x:* x:* 1 =x:*
    lerp.Scalar_out | x:* x:* 0.5 =x:*
    sqrt.out rsqrt.out exp.out log.out sin.out cos.out tanh.out erf.out | x:* =x:*
    sigmoid.out reciprocal.out silu.out | x:* =x:*
    relu | x:*
    gelu.out | x:* 'none' =x:*
    gelu.out | x:* 'tanh' =x:*
    softplus.out | x:* 1 20 =x:*
    leaky_relu.out | x:* 0.01 =x:*
    sigmoid_backward.grad_input tanh_backward.grad_input | x:* x:* =x:*
    silu_backward.grad_input | x:* x:* =x:*
    threshold_backward.grad_input | x:* x:* 0 =x:*
    gelu_backward.grad_input | x:* x:* 'none' =x:*
    gelu_backward.grad_input | x:* x:* 'tanh' =x:*
    mean.out | x:4x64 [] false - =x:
    mean.out | x:4x64 [1] true - =x:4x1
    var.correction | x:4x64 [1] 1 false
    linalg_vector_norm.out | x:4x64 2 [] false - =x:
    _softmax.out _log_softmax.out | x:4x64 1 false =x:4x64
    _softmax_backward_data.out _log_softmax_backward_data.out | x:4x64 x:4x64 1 - =x:4x64
    native_layer_norm | x:4x64 [64] x:64 x:64 0.00001
    native_layer_norm | x:4x64 [64] - - 0.00001
    _fused_rms_norm | x:4x64 [64] x:64 0.00001
    mm.out | x:4x64 x:64x96 =x:4x96
    bmm.out | x:2x4x64 x:2x64x96 =x:2x4x96
    addmm.out | x:96 x:4x64 x:64x96 1 1 =x:4x96
    baddbmm.out | x:2x4x96 x:2x4x64 x:2x64x96 1 1 =x:2x4x96
    mv | x:4x64 x:64
    dot | x:64 x:64
    nll_loss_forward.output | x:4x64 i:4 - 1 -100 =x: =x:
    nll_loss_backward.grad_input | x: x:4x64 i:4 - 1 -100 x: =x:4x64
    mse_loss.out | x:4x64 x:4x64 1 =x:
    spyre::attention | x:2x2x4x64 x:2x2x8x64 x:2x2x8x64 - 0.125 false
    spyre::attention | x:2x2x4x64 x:2x2x8x64 x:2x2x8x64 - 0.125 true
    spyre::attention | x:2x2x4x64 x:2x2x8x64 x:2x2x8x64 x:2x2x4x8 0.125 false
    spyre::attention | x:2x4x4x64 x:2x2x8x64 x:2x2x8x64 - 0.125 false
    spyre::attention | x:2x4x4x64 x:2x2x8x64 x:2x2x8x64 - 0.125 true
    spyre::attention | x:2x4x4x64 x:2x2x8x64 x:2x2x8x64 x:2x4x4x8 0.125 false
    uniform_ normal_ | =x:* 0.0 1.0 random
    native_dropout | x:* 0.5 true random
    ",
);

const INTEGERS: Group = Group(
    "
    arange.start_out | 0 64 1 =x:64
    floor_divide remainder.Tensor_out | x:* 2 =x:*
    div.out | x:* 2 =w:*
    ",
);

const BOOLEANS: Group = Group(
    "
    logical_and.out logical_or.out | x:* x:* =x:*
    bitwise_and.Tensor_out bitwise_or.Tensor_out | x:* x:* =x:*
    logical_not.out bitwise_not.out | x:* =x:*
    any.out all.out | x:4x64 1 false =x:4
    any.all_out all.all_out | x:4x64 =x:
    sum.IntList_out | x:4x64 [] false - =i:
    ",
);

/// Calls that put values somewhere: fills, selections, lookups.
const PLACES: Group = Group(
    "
    fill_.Scalar | =x:* 1
    fill_.Scalar | =x: 1
    zero_ | =x:*
    where.self | b:* x:* x:*
    masked_fill_.Scalar | =x:* b:* 0
    tril.out triu.out | x:64x64 0 =x:64x64
    cat.out | (x:4x64,x:4x64) 0 =x:8x64
    cat.out | (x:4x64,x:4x64) 1 =x:4x128
    cat.out | (x:2x4x8x64,x:2x4x8x64) 2 =x:2x4x16x64
    index_select | x:96x64 0 i:4
    gather.out | x:4x64 1 i:4x8 false =x:4x8
    ",
);

/// Steps of optimisers, whose numbers are of 32 bits nearly always; gradients of lookups and norms.
const SINGLES: Group = Group(
    "
    _fused_adamw_ _fused_adam_ | (=x:*) (=x:*) (=x:*) (=x:*) () (x:) 0.5 0.5 0.5 0.5 0.5 false false - -
    _fused_sgd_ | (=x:*) (=x:*) (=x:*) 0.5 0.5 0.5 0.5 false false true - -
    embedding_dense_backward | x:4x64 i:4 96 -1 false
    native_layer_norm_backward | x:4x64 x:4x64 [64] x:4x1 x:4x1 x:64 x:64 [true,true,true]
    _fused_rms_norm_backward | x:4x64 x:4x64 [64] x:4x1 x:64 [true,true]
    ",
);
