use std::hash::{Hash, Hasher};

use smallvec::SmallVec;
use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

use super::kernel::{Input, Pointwise};
use super::parameter::Parameter;
use crate::dtypes::{Category, Promotion, can_cast, is_complex, lane, part_of, promoted};
use crate::recipe::{KernelSource, Launch, OperandView, Recipe, ResultShape, TensorRef};
use crate::views::{Loops, Numbers, broadcast, expanded, like};
use crate::{Argument, Call, Decline, TensorView};

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
    /// Expressions for complex numbers, of the two parts of a result, or of a real one. Those of `a`
    /// are `a_re` and `a_im`.
    pub(crate) complex: Option<String>,
    /// Complex numbers of any width are computed in float64.
    pub(crate) is_double: bool,
    /// Narrow floats have no kernel: what is exact in a wider one, is not in them.
    pub(crate) is_wide: bool,
    /// Results are of the dtype that is computed in, and no other.
    pub(crate) is_strict: bool,
    /// Its place in the table.
    pub(crate) number: u16,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// Arguments that are tensors, and their strides in the shape of all.
type Inputs = SmallVec<[(usize, Numbers); 4]>;

impl Entry {
    /// The expression for numbers of a dtype.
    pub(crate) fn expression(&self, dtype: DType) -> Option<&str> {
        if is_complex(dtype) {
            let is_too_narrow = self.is_wide && dtype == DType::Complex32;
            return self.complex.as_deref().filter(|_| !is_too_narrow);
        }
        match lane(dtype).ok()? {
            Lane::I64 if dtype == DType::UInt64 => self.unsigned,
            Lane::I64 => self.int,
            Lane::Bool => self.boolean,
            _ if self.is_wide && !matches!(dtype, DType::Float32 | DType::Float64) => None,
            _ => self.float,
        }
    }

    /// The lane that numbers of a dtype are computed in.
    pub(super) fn lane(&self, compute: DType) -> Result<Lane, Decline> {
        if self.is_double { Ok(Lane::F64) } else { lane(part_of(compute)) }
    }

    /// Dtype of results where the caller asks for none.
    pub(super) fn result_dtype(&self, compute: DType) -> DType {
        match self.outcome {
            Outcome::Bool => DType::Bool,
            Outcome::Computed if self.gives_real() => part_of(compute),
            Outcome::Computed => compute,
        }
    }

    /// Returns true if it makes one real number of complex ones.
    fn gives_real(&self) -> bool {
        let values = |text: &String| text.split(';').filter(|part| !part.contains(":=")).count();
        self.complex.as_ref().is_some_and(|text| values(text) == 1)
    }

    /// Returns the recipe of a call.
    pub(crate) fn recipe(&'static self, call: &Call<'_>) -> Result<Recipe, Decline> {
        self.check(call)?;
        let compute = self.computed_in(call)?;
        let (shape, inputs) = self.inputs(call)?;
        let results = self.results(call, compute, &shape, &inputs)?;
        let outputs = outputs(call, &results)?;
        let from = self.result_dtype(compute);
        for (_, output) in &outputs {
            if output.size != &shape[..] {
                let stride = self.lies_as(&shape, &inputs).to_vec();
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
        let is_alone = self.is_strict || values.count() == 1;
        self.domain == Domain::Promoted && self.outcome == Outcome::Computed && is_alone
    }

    fn check(&self, call: &Call<'_>) -> Result<(), Decline> {
        for (argument, parameter) in self.parameters.iter().enumerate() {
            if !parameter.takes(&call.argument(argument), self.complex.is_some()) {
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
        let dtype = if self.complex.is_some() { self.as_complex(call, dtype) } else { dtype };
        self.expression(dtype).map(|_| dtype).ok_or(Decline::DType { dtype })
    }

    /// A result of complex numbers has an op compute with them, also where no argument does: `2 + 0j` is a
    /// number as any other.
    fn as_complex(&self, call: &Call<'_>, dtype: DType) -> DType {
        let is_given = |&at: &usize| call.tensor(at).is_some_and(|tensor| is_complex(tensor.dtype));
        if !call.written.iter().any(is_given) {
            return dtype;
        }
        let is_float = Category::of(dtype) >= Category::Float;
        promoted(if is_float { dtype } else { call.default }, DType::Complex32)
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
        let dtype = self.result_dtype(compute);
        let stride = self.lies_as(shape, inputs);
        Ok(SmallVec::from_iter([ResultShape { dtype, size: shape.clone(), stride }]))
    }

    fn launch(
        &'static self,
        call: &Call<'_>,
        compute: DType,
        shape: &Numbers,
        inputs: Inputs,
        outputs: &[(TensorRef, TensorView<'_>)],
    ) -> Result<Launch, Decline> {
        let mut operands = Operands::default();
        for (at, strides) in inputs {
            let dtype = call.tensor(at).map_or(compute, |tensor| tensor.dtype);
            operands.push(TensorRef::Argument(at), dtype, strides);
        }
        for &(place, output) in outputs {
            operands.push(place, output.dtype, output.stride.into());
        }
        let own = self.lane(compute)?;
        let mut kinds = SmallVec::new();
        let mut scalars = SmallVec::new();
        for (at, parameter) in self.parameters.iter().enumerate() {
            let Some(_) = parameter.name() else { continue };
            let in_lane = if let Parameter::Of(_, lane) = parameter { *lane } else { own };
            match call.argument(at) {
                Argument::Tensor(tensor) => {
                    self.check_operand(&tensor, in_lane, compute)?;
                    kinds.push(Input::Tensor(tensor.dtype));
                }
                Argument::Number(number) => {
                    let is_compared = self.outcome == Outcome::Bool;
                    let number = if is_compared { number.rounded_to(compute) } else { number };
                    kinds.push(Input::Number);
                    scalars.push(number.in_lane(in_lane).word());
                    if is_complex(compute) && parameter.has_parts() {
                        scalars.push(Constant::Float(number.imaginary).word());
                    }
                }
                _ => {}
            }
        }
        let results = outputs.iter().map(|(_, output)| output.dtype);
        let has_parts = |dtype: &DType| !is_complex(*dtype) || self.complex.is_some();
        if let Some(dtype) = results.clone().find(|dtype| !has_parts(dtype)) {
            return Err(Decline::DType { dtype });
        }
        for dtype in results.clone() {
            lane(part_of(dtype))?;
        }
        let (size, operands) = operands.views(shape)?;
        let kernel = Pointwise {
            entry: self,
            compute,
            inputs: kinds,
            results: results.collect(),
            dims: size as u8,
        };
        let kernel = KernelSource::Pointwise(kernel);
        Ok(Launch { kernel, operands, scalars })
    }

    /// Refuses elements that the kernel would take for other numbers.
    fn check_operand(
        &self,
        tensor: &TensorView<'_>,
        in_lane: Lane,
        compute: DType,
    ) -> Result<(), Decline> {
        let dtype = tensor.dtype;
        let is_unsigned = dtype == DType::UInt64 && in_lane == Lane::I64;
        let is_true = in_lane == Lane::Bool && dtype != DType::Complex32;
        let is_whole = is_complex(dtype) && !is_complex(compute) && !is_true;
        lane(part_of(dtype))?;
        if (is_unsigned && compute != DType::UInt64) || is_whole {
            return Err(Decline::DType { dtype });
        }
        Ok(())
    }

    /// Strides of a result. PyTorch has real ones of complex numbers in rows.
    fn lies_as(&self, shape: &Numbers, inputs: &[(usize, Numbers)]) -> Numbers {
        if self.outcome == Outcome::Computed && self.gives_real() {
            return like(shape, &[]);
        }
        let sources: Vec<Numbers> = inputs.iter().map(|(_, strides)| strides.clone()).collect();
        like(shape, &sources)
    }
}

/// Operands of a kernel: a tensor of complex numbers is two, its parts.
#[derive(Default)]
struct Operands {
    places: SmallVec<[(TensorRef, usize); 4]>,
    strides: SmallVec<[Numbers; 4]>,
}

impl Operands {
    fn push(&mut self, place: TensorRef, dtype: DType, strides: Numbers) {
        if !is_complex(dtype) {
            self.places.push((place, 0));
            self.strides.push(strides);
            return;
        }
        let strides: Numbers = strides.into_iter().map(|stride| 2 * stride).collect();
        for offset in 0..2 {
            self.places.push((place, offset));
            self.strides.push(strides.clone());
        }
    }

    /// Views of all, and how many dims they have.
    fn views(self, shape: &Numbers) -> Result<(usize, SmallVec<[OperandView; 4]>), Decline> {
        let loops = Loops::over(shape, self.strides)?;
        let views = self.places.into_iter().zip(loops.strides);
        let views = views.map(|((place, offset), stride)| OperandView {
            place,
            size: loops.size.clone(),
            stride,
            offset,
        });
        Ok((loops.size.len(), views.collect()))
    }
}

fn outputs<'a>(
    call: &Call<'a>,
    results: &'a [ResultShape],
) -> Result<SmallVec<[(TensorRef, TensorView<'a>); 1]>, Decline> {
    if call.written.is_empty() {
        let made = results.iter().enumerate().map(|(at, result)| {
            let ResultShape { dtype, size, stride } = result;
            (TensorRef::Result(at), TensorView { dtype: *dtype, size, stride, offset: 0 })
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
