//! Whole numbers of 64 bits without a sign. Kernels compute with the same bits, which have a sign to
//! them: that is the same where elements are moved, added, multiplied or compared with zero.

use spyre_numerics::DType;

use crate::{Argument, Call, Decline, Recipe};

/// The functions to which a sign makes no difference. Rows of expressions have a say of their own.
const WRAPPING: &[&str] = &[
    "all.all_out",
    "all.dims_out",
    "all.out",
    "any.all_out",
    "any.dims_out",
    "any.out",
    "cat.out",
    "cumprod.out",
    "cumsum.out",
    "fill_.Scalar",
    "flip",
    "gather.out",
    "index.Tensor",
    "index.Tensor_out",
    "_index_put_impl_",
    "index_copy.out",
    "index_select",
    "index_select.out",
    "nansum.out",
    "prod",
    "prod.int_out",
    "random_.from",
    "randperm.generator_out",
    "random_.to",
    "roll",
    "scatter.src_out",
    "scatter.value_out",
    "sort.values_stable",
    "spyre::masked_select",
    "spyre::nonzero",
    "sum.IntList_out",
    "tril.out",
    "triu.out",
    "zero_",
];

/// Declines what a function would compute as numbers with a sign.
pub(crate) fn check(name: &str, call: &Call<'_>, recipe: &Recipe) -> Result<(), Decline> {
    let results = recipe.results.iter().map(|result| result.dtype);
    let is_there = call.arguments.iter().any(is_unsigned)
        || results.into_iter().any(|dtype| dtype == DType::UInt64);
    if is_there && !WRAPPING.contains(&name) {
        Err(Decline::DType { dtype: DType::UInt64 })
    } else {
        Ok(())
    }
}

fn is_unsigned(argument: &Argument<'_>) -> bool {
    match argument {
        Argument::Tensor(tensor) => tensor.dtype == DType::UInt64,
        Argument::Tensors(list) => {
            list.iter().flatten().any(|tensor| tensor.dtype == DType::UInt64)
        }
        _ => false,
    }
}
