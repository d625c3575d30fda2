//! Results of a call: tensors that it is given, or that are made for it.

use smallvec::SmallVec;
use spyre_numerics::DType;

use crate::dtypes::can_cast;
use crate::recipe::{Recipe, ResultShape, TensorRef};
use crate::views::{Numbers, image_like, like};
use crate::{Call, Decline, TensorView};

/// Dtype, size and strides that a result is to have.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) dtype: DType,
    pub(crate) size: Numbers,
    pub(crate) stride: Numbers,
}

impl Wanted {
    /// One that lies row by row.
    pub(crate) fn rows(dtype: DType, size: &[usize]) -> Self {
        Self { dtype, size: size.into(), stride: like(size, &[]) }
    }

    /// The tensor that it will be.
    pub(crate) fn tensor(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, size: &self.size, stride: &self.stride, offset: 0 }
    }

    /// One that lies as an image does.
    pub(crate) fn image(dtype: DType, size: &[usize], like: &TensorView<'_>) -> Self {
        Self { dtype, size: size.into(), stride: image_like(size, &[like]) }
    }
}

/// The results of a call, in order.
#[derive(Debug)]
pub(crate) struct Outputs<'a> {
    given: SmallVec<[(TensorRef, TensorView<'a>); 2]>,
    made: SmallVec<[ResultShape; 1]>,
}

impl<'a> Outputs<'a> {
    /// Those that the call is given, if they are as wanted; or new ones. One of another dtype is the
    /// host's to refuse, or to convert.
    pub(crate) fn of(call: &Call<'a>, wanted: &[Wanted]) -> Result<Self, Decline> {
        Self::taken(call, wanted, |from, to| from == to)
    }

    /// Finds results like [`of`](Self::of) does, for an op whose results may be stored as another dtype.
    pub(crate) fn cast(call: &Call<'a>, wanted: &[Wanted]) -> Result<Self, Decline> {
        Self::taken(call, wanted, can_cast)
    }

    fn taken(
        call: &Call<'a>,
        wanted: &[Wanted],
        takes: fn(DType, DType) -> bool,
    ) -> Result<Self, Decline> {
        if call.written.is_empty() {
            let made = wanted.iter().map(|wanted| {
                let Wanted { dtype, size, stride } = wanted.clone();
                ResultShape { dtype, size, stride }
            });
            return Ok(Self { given: SmallVec::new(), made: made.collect() });
        }
        let mut given = SmallVec::new();
        for (&argument, wanted) in call.written.iter().zip(wanted) {
            let tensor = call.tensor(argument);
            let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a tensor" })?;
            if tensor.size != &wanted.size[..] {
                let size = wanted.size.to_vec();
                let stride = wanted.stride.to_vec();
                return Err(Decline::ResultShape { size, stride });
            }
            if !takes(wanted.dtype, tensor.dtype) {
                return Err(Decline::Cast { from: wanted.dtype, to: tensor.dtype });
            }
            given.push((TensorRef::Argument(argument), tensor));
        }
        Ok(Self { given, made: SmallVec::new() })
    }

    /// One of them, and where it is.
    pub(crate) fn get(&self, at: usize) -> (TensorRef, TensorView<'_>) {
        match self.made.get(at) {
            Some(ResultShape { dtype, size, stride }) => {
                (TensorRef::Result(at), TensorView { dtype: *dtype, size, stride, offset: 0 })
            }
            None => self.given[at],
        }
    }

    /// A recipe that makes what is to be made.
    pub(crate) fn into_recipe(self) -> Recipe {
        Recipe { results: self.made, ..Recipe::default() }
    }
}
