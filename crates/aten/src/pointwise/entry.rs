use smallvec::SmallVec;
use spyre_artifact::Lane;
use spyre_numerics::DType;

use super::kernel::{Input, Pointwise};
use super::parameter::Parameter;
use crate::dtypes::{Category, Promotion, can_cast, lane};
use crate::recipe::{KernelSource, Launch, OperandView, Recipe, ResultShape, TensorRef};
use crate::views::{Loops, Numbers, broadcast, expanded, like};
use crate::{Argument, Call, Decline, Tensor};

/// Dtype that the op computes in, from the promoted dtype of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// The promoted dtype.
    Promoted,
    /// The promoted dtype, or the default float where it has integers or booleans.
    Float,
}

/// Dtype of results where the caller asks for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The dtype that is computed in.
    Computed,
    /// Booleans.
    Bool,
}

/// A row of the table: some overloads that compute alike.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) names: Vec<&'static str>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) domain: Domain,
    pub(crate) outcome: Outcome,
    /// Expressions by lane: this one for floats, then those for integers and booleans.
    pub(crate) float: Option<&'static str>,
    pub(crate) int: Option<&'static str>,
    pub(crate) boolean: Option<&'static str>,
    /// Expression for the bits of unsigned integers.
    pub(crate) unsigned: Option<&'static str>,
    /// Narrow floats have no kernel: what is exact in a wider one, is not in them.
    pub(crate) is_wide: bool,
    /// Its place in the table.
    pub(crate) number: u16,
}

/// Arguments that are tensors, and their strides in the shape of all.
type Inputs = SmallVec<[(usize, Numbers); 4]>;

impl Entry {
    /// The expression for numbers of a dtype.
    pub(crate) fn expression(&self, dtype: DType) -> Option<&'static str> {
        match lane(dtype).ok()? {
            Lane::I64 if dtype == DType::UInt64 => self.unsigned,
            Lane::I64 => self.int,
            Lane::Bool => self.boolean,
            _ if self.is_wide && !matches!(dtype, DType::Float32 | DType::Float64) => None,
            _ => self.float,
        }
    }

    /// Returns the recipe of a call.
    pub(crate) fn recipe(&self, call: &Call<'_>) -> Result<Recipe, Decline> {
        self.check(call)?;
        let compute = self.computed_in(call)?;
        let (shape, inputs) = self.inputs(call)?;
        let results = self.results(call, compute, &shape, &inputs)?;
        let outputs = outputs(call, &results)?;
        let from = if self.outcome == Outcome::Bool { DType::Bool } else { compute };
        for (_, output) in &outputs {
            if output.size != &shape[..] {
                let stride = lies_as(&shape, &inputs).to_vec();
                return Err(Decline::ResultShape { size: shape.to_vec(), stride });
            }
            if !can_cast(from, output.dtype) || (self.keeps_dtype() && from != output.dtype) {
                return Err(Decline::Cast { from, to: output.dtype });
            }
        }
        let mut recipe = Recipe { results: results.clone(), ..Recipe::default() };
        if !shape.contains(&0) {
            recipe.launches.push(self.launch(call, compute, &shape, inputs, &outputs)?);
        }
        Ok(recipe)
    }

    /// Returns true if a result is of the dtype of the only argument. PyTorch refuses others for most
    /// of such ops, and the host knows for which.
    fn keeps_dtype(&self) -> bool {
        let values = self.parameters.iter().filter(|known| matches!(known, Parameter::Value(_)));
        self.domain == Domain::Promoted && self.outcome == Outcome::Computed && values.count() == 1
    }

    fn check(&self, call: &Call<'_>) -> Result<(), Decline> {
        for (argument, parameter) in self.parameters.iter().enumerate() {
            if !parameter.takes(&call.argument(argument)) {
                return Err(Decline::Argument { argument, expected: "another overload" });
            }
        }
        Ok(())
    }

    fn computed_in(&self, call: &Call<'_>) -> Result<DType, Decline> {
        let voters = self.parameters.iter().enumerate();
        let voters = voters.filter(|(_, known)| matches!(known, Parameter::Value(_)));
        // Where no argument decides, the op computes with booleans.
        let dtype = Promotion::of(call, voters.map(|(at, _)| at)).dtype().unwrap_or(DType::Bool);
        let is_float = Category::of(dtype) >= Category::Float;
        let dtype = if self.domain == Domain::Float && !is_float { call.default } else { dtype };
        self.expression(dtype).map(|_| dtype).ok_or(Decline::DType { dtype })
    }

    /// The shape of all arguments together, and those that are tensors with their strides in it.
    fn inputs(&self, call: &Call<'_>) -> Result<(Numbers, Inputs), Decline> {
        let tensors = || {
            let named =
                self.parameters.iter().enumerate().filter(|(_, known)| known.name().is_some());
            named.filter_map(|(at, _)| call.tensor(at).map(|tensor| (at, tensor)))
        };
        let shape = broadcast(tensors().map(|(_, tensor)| tensor.size));
        let shape = shape.ok_or(Decline::Shapes)?;
        let mut inputs = SmallVec::new();
        for (at, tensor) in tensors() {
            inputs.push((at, expanded(&tensor, &shape).ok_or(Decline::Shapes)?));
        }
        Ok((shape, inputs))
    }

    fn results(
        &self,
        call: &Call<'_>,
        compute: DType,
        shape: &Numbers,
        inputs: &[(usize, Numbers)],
    ) -> Result<SmallVec<[ResultShape; 1]>, Decline> {
        if !call.written.is_empty() {
            return Ok(SmallVec::new());
        }
        let dtype = if self.outcome == Outcome::Bool { DType::Bool } else { compute };
        let stride = lies_as(shape, inputs);
        Ok(SmallVec::from_iter([ResultShape { dtype, size: shape.clone(), stride }]))
    }

    fn launch(
        &self,
        call: &Call<'_>,
        compute: DType,
        shape: &Numbers,
        inputs: Inputs,
        outputs: &[(TensorRef, Tensor<'_>)],
    ) -> Result<Launch, Decline> {
        let places = inputs.iter().map(|&(at, _)| TensorRef::Argument(at));
        let places = places.chain(outputs.iter().map(|&(place, _)| place));
        let places: SmallVec<[TensorRef; 4]> = places.collect();
        let mut strides: SmallVec<[Numbers; 4]> =
            inputs.into_iter().map(|(_, strides)| strides).collect();
        strides.extend(outputs.iter().map(|(_, output)| Numbers::from(output.stride)));
        let loops = Loops::over(shape, strides)?;
        let operands = places.into_iter().zip(loops.strides).map(|(place, stride)| OperandView {
            place,
            size: loops.size.clone(),
            stride,
            offset: 0,
        });
        let own = lane(compute)?;
        let mut kinds = SmallVec::new();
        let mut scalars = SmallVec::new();
        for (at, parameter) in self.parameters.iter().enumerate() {
            let Some(_) = parameter.name() else { continue };
            let in_lane = if let Parameter::Of(_, lane) = parameter { *lane } else { own };
            match call.argument(at) {
                Argument::Tensor(tensor) => {
                    let is_mixed = in_lane == Lane::I64 && compute != DType::UInt64;
                    if lane(tensor.dtype)? == Lane::I64 && is_mixed && tensor.dtype == DType::UInt64
                    {
                        return Err(Decline::DType { dtype: tensor.dtype });
                    }
                    kinds.push(Input::Tensor(tensor.dtype));
                }
                Argument::Number(number) => {
                    kinds.push(Input::Number);
                    scalars.push(number.in_lane(in_lane).word());
                }
                _ => {}
            }
        }
        let results = outputs.iter().map(|(_, output)| lane(output.dtype).map(|_| output.dtype));
        let kernel = Pointwise {
            entry: self.number,
            compute,
            inputs: kinds,
            results: results.collect::<Result<_, _>>()?,
            dims: loops.size.len() as u8,
        };
        let kernel = KernelSource::Pointwise(kernel);
        Ok(Launch { kernel, operands: operands.collect(), scalars })
    }
}

/// Strides of a result.
fn lies_as(shape: &Numbers, inputs: &[(usize, Numbers)]) -> Numbers {
    let sources: Vec<Numbers> = inputs.iter().map(|(_, strides)| strides.clone()).collect();
    like(shape, &sources)
}

fn outputs<'a>(
    call: &Call<'a>,
    results: &'a [ResultShape],
) -> Result<SmallVec<[(TensorRef, Tensor<'a>); 1]>, Decline> {
    if call.written.is_empty() {
        let made = results.iter().enumerate().map(|(at, result)| {
            let ResultShape { dtype, size, stride } = result;
            (TensorRef::Result(at), Tensor { dtype: *dtype, size, stride })
        });
        return Ok(made.collect());
    }
    let given = call.written.iter().map(|&argument| {
        let tensor = call.tensor(argument);
        let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a tensor" })?;
        Ok((TensorRef::Argument(argument), tensor))
    });
    given.collect()
}
