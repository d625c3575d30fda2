use std::ffi::CStr;

/// Op of the namespace `spyre` that is one of PyTorch's under another name.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// Schema of the op. Arguments that only PyTorch's has take their defaults.
    pub schema: &'static CStr,
    /// Name of PyTorch's op.
    pub op: &'static CStr,
    /// Overload of PyTorch's op.
    pub overload: &'static CStr,
    /// Result of PyTorch's op that is this op's; without one, all are.
    pub result: Option<u8>,
}

impl Alias {
    /// Every alias.
    pub const ALL: &'static [Self] = &[
        alias(
            c"softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
            c"aten::softplus",
            c"",
            None,
        ),
        alias(c"gelu(Tensor self, str approximate='none') -> Tensor", c"aten::gelu", c"", None),
        alias(c"silu(Tensor self) -> Tensor", c"aten::silu", c"", None),
        alias(
            c"clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
            c"aten::clamp",
            c"",
            None,
        ),
        alias(c"logical_not(Tensor self) -> Tensor", c"aten::logical_not", c"", None),
        alias(
            c"layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? \
              bias=None, float eps=1e-05) -> Tensor",
            c"aten::layer_norm",
            c"",
            None,
        ),
        alias(
            c"rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? \
              eps=None) -> Tensor",
            c"aten::rms_norm",
            c"",
            None,
        ),
        alias(
            c"topkvalue(Tensor self, SymInt k, int dim=-1, bool largest=True, bool \
              sorted=True) -> Tensor",
            c"aten::topk",
            c"",
            Some(0),
        ),
        alias(
            c"topkindex(Tensor self, SymInt k, int dim=-1, bool largest=True, bool \
              sorted=True) -> Tensor",
            c"aten::topk",
            c"",
            Some(1),
        ),
        alias(
            c"max_dim_int64_fallback(Tensor self, int dim, bool keepdim=False) -> (Tensor \
              values, Tensor indices)",
            c"aten::max",
            c"dim",
            None,
        ),
        alias(
            c"min_dim_int64_fallback(Tensor self, int dim, bool keepdim=False) -> (Tensor \
              values, Tensor indices)",
            c"aten::min",
            c"dim",
            None,
        ),
        alias(
            c"unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
            c"aten::unfold",
            c"",
            None,
        ),
        alias(
            c"unfold.images(Tensor self, int[2] kernel_size, int[2] dilation=1, int[2] \
              padding=0, int[2] stride=1) -> Tensor",
            c"aten::im2col",
            c"",
            None,
        ),
        alias(c"batched_matmul(Tensor self, Tensor other) -> Tensor", c"aten::matmul", c"", None),
    ];
}

const fn alias(
    schema: &'static CStr,
    op: &'static CStr,
    overload: &'static CStr,
    result: Option<u8>,
) -> Alias {
    Alias { schema, op, overload, result }
}
