//! Conversions to another dtype, where a copy cannot convert elements on its way.

use smallvec::smallvec;
use spyre_artifact::Lane;

use crate::dtypes::lane;
use crate::generated::{AtLeastOne, Generated, Text};
use crate::indexing::{check_dims, tensor};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::source;
use crate::{Call, Decline};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    // x, result
    ("spyre::cast", cast),
];

fn cast(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let y = tensor(call, 1)?;
    check_dims(x.size.len())?;
    if x.size != y.size {
        return Err(Decline::Shapes);
    }
    let mut recipe = Recipe::default();
    if !x.size.contains(&0) {
        let [x, y] = [&x, &y].map(AtLeastOne::of);
        let tensors = [(TensorRef::Argument(0), x.tensor()), (TensorRef::Argument(1), y.tensor())];
        let numbers = smallvec![x.tensor().size.len() as u32];
        recipe.launches.push(Generated::launch("cast", write, numbers, &tensors)?);
    }
    Ok(recipe)
}

fn write(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    text.line(format_args!("y = {}(x)", lane(kernel.dtypes[1]).map_or("f32", Lane::name)));
    text.kernel(kernel.name)
}
