use spyre_numerics::DType;
use thiserror::Error;

/// Reason why there is no kernel for a call. It is no error: there may be another way to carry it out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Decline {
    #[error("no kernel computes with {dtype}")]
    DType { dtype: DType },
    #[error("argument {argument} is not what kernels take: {expected}")]
    Argument { argument: usize, expected: &'static str },
    #[error("{dims} dimensions are more than a kernel has")]
    Rank { dims: usize },
    #[error("a result of {from} cannot be stored as {to}")]
    Cast { from: DType, to: DType },
    #[error("arguments of these shapes do not go together")]
    Shapes,
    #[error("a result is to be of shape {size:?}")]
    ResultShape { size: Vec<usize>, stride: Vec<usize> },
}
