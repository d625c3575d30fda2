//! Results that many values are added to.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use super::steps::{lane_of, write_zeros};
use crate::dtypes::is_wide;
use crate::generated::{Generated, Text};
use crate::outputs::Outputs;
use crate::recipe::{Launch, Recipe, ResultShape, TensorRef};
use crate::views::like;
use crate::{Decline, TensorView};

/// The only result of a call, or something wider that is rounded into it once, at the end.
pub(crate) struct Sums<'a> {
    outputs: Outputs<'a>,
    wider: Option<(TensorRef, ResultShape)>,
}

impl<'a> Sums<'a> {
    pub(crate) fn of(outputs: Outputs<'a>) -> Self {
        let (place, y) = outputs.get(0);
        let nth = usize::from(matches!(place, TensorRef::Result(_)));
        let wider = (!is_wide(y.dtype)).then(|| {
            let size = y.size.into();
            let stride = like(y.size, &[]);
            (TensorRef::Result(nth), ResultShape { dtype: DType::Float32, size, stride })
        });
        Self { outputs, wider }
    }

    /// Returns the tensor that values are added to.
    pub(crate) fn tensor(&self) -> (TensorRef, TensorView<'_>) {
        match &self.wider {
            Some((place, ResultShape { dtype, size, stride })) => {
                (*place, TensorView { dtype: *dtype, size, stride, offset: 0 })
            }
            None => self.outputs.get(0),
        }
    }

    /// The recipe that begins with nothing and then adds, if there is something to add.
    pub(crate) fn recipe(self, adding: Option<Launch>) -> Result<Recipe, Decline> {
        let (place, sums) = self.tensor();
        let mut launches: SmallVec<[Launch; 3]> = smallvec![];
        if !sums.size.contains(&0) {
            let numbers = smallvec![sums.size.len() as u32];
            launches.push(Generated::launch("sums", write_zeros, numbers, &[(place, sums)])?);
            launches.extend(adding);
            if self.wider.is_some() {
                let tensors = [(place, sums), self.outputs.get(0)];
                let numbers = smallvec![sums.size.len() as u32];
                launches.push(Generated::launch("rounded", write_rounded, numbers, &tensors)?);
            }
        }
        let mut recipe = self.outputs.into_recipe();
        recipe.results.extend(self.wider.map(|(_, shape)| shape));
        recipe.launches.extend(launches);
        Ok(recipe)
    }
}

fn write_rounded(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    text.line(format_args!("y = {}(x)", lane_of(kernel.dtypes[1])));
    text.kernel(kernel.name)
}
