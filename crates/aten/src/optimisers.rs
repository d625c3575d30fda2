//! Steps of optimisers, and what scaled gradients need: one launch for each parameter.

mod kernel;

use smallvec::SmallVec;
use spyre_artifact::Constant;
use spyre_numerics::DType;

use self::kernel::{Flag, write_adagrad, write_adam, write_scale, write_sgd, write_unscale};
use crate::dtypes::{Category, lane};
use crate::generated::{AtLeastOne, Generated};
use crate::recipe::Function;
use crate::recipe::{KernelSource, Launch, OperandView, Recipe, TensorRef};
use crate::reductions::float_of;
use crate::views::{Loops, Numbers};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("_fused_adam_", |call| adam(call, false)),
    ("_fused_adam_.tensor_lr", |call| adam(call, false)),
    ("_fused_adamw_", |call| adam(call, true)),
    ("_fused_adamw_.tensor_lr", |call| adam(call, true)),
    ("_fused_sgd_", sgd),
    ("_fused_sgd_.tensor_lr", sgd),
    ("_fused_adagrad_", adagrad),
    ("_fused_adagrad_.tensor_lr", adagrad),
    ("_amp_foreach_non_finite_check_and_unscale_", unscale),
    ("_amp_update_scale_", update_scale),
];

/// A kind of optimiser: its name, its text, which arguments are lists of tensors like the parameters,
/// and which are tensors of one element.
struct Step<'a> {
    name: &'static str,
    write: fn(&Generated) -> String,
    flags: u32,
    lists: &'a [usize],
    singles: &'a [usize],
    /// A list of tensors of one element.
    steps: Option<usize>,
    numbers: &'a [f64],
}

/// `adam(parameters, grads, means, squares, largest squares, steps, lr, beta1, beta2, decay, epsilon,
/// amsgrad, maximize, grad_scale, found_inf)`.
fn adam(call: &Call<'_>, is_decoupled: bool) -> Result<Recipe, Decline> {
    let amsgrad = call.boolean(11).unwrap_or(false);
    let mut flags = common_flags(call, 6, 12, [13, 14], number(call, 9)? != 0.0);
    flags |= Flag::Decoupled.if_(is_decoupled) | Flag::Largest.if_(amsgrad);
    let numbers = [6, 7, 8, 9, 10].map(|at| number(call, at).unwrap_or(0.0));
    let lists: &[usize] = if amsgrad { &[0, 1, 2, 3, 4] } else { &[0, 1, 2, 3] };
    let step = Step {
        name: "adam",
        write: write_adam,
        flags,
        lists,
        singles: &[6, 13, 14],
        steps: Some(5),
        numbers: &numbers,
    };
    step.recipe(call)
}

/// `sgd(parameters, grads, momenta, decay, momentum, lr, dampening, nesterov, maximize, is_first,
/// grad_scale, found_inf)`.
fn sgd(call: &Call<'_>) -> Result<Recipe, Decline> {
    let momentum = number(call, 4)?;
    let flag = |at| call.boolean(at).unwrap_or(false);
    let mut flags = common_flags(call, 5, 8, [10, 11], number(call, 3)? != 0.0);
    flags |= Flag::Momentum.if_(momentum != 0.0) | Flag::Nesterov.if_(flag(7));
    flags |= Flag::First.if_(flag(9));
    let numbers = [5, 3, 4, 6].map(|at| number(call, at).unwrap_or(0.0));
    let lists: &[usize] = if momentum == 0.0 { &[0, 1] } else { &[0, 1, 2] };
    let step = Step {
        name: "sgd",
        write: write_sgd,
        flags,
        lists,
        singles: &[5, 10, 11],
        steps: None,
        numbers: &numbers,
    };
    step.recipe(call)
}

/// `adagrad(parameters, grads, sums, steps, lr, lr_decay, decay, epsilon, maximize, grad_scale,
/// found_inf)`.
fn adagrad(call: &Call<'_>) -> Result<Recipe, Decline> {
    let flags = common_flags(call, 4, 8, [9, 10], number(call, 6)? != 0.0);
    let numbers = [4, 5, 6, 7].map(|at| number(call, at).unwrap_or(0.0));
    let step = Step {
        name: "adagrad",
        write: write_adagrad,
        flags,
        lists: &[0, 1, 2],
        singles: &[4, 9, 10],
        steps: Some(3),
        numbers: &numbers,
    };
    step.recipe(call)
}

fn common_flags(
    call: &Call<'_>,
    lr: usize,
    maximize: usize,
    [scale, found]: [usize; 2],
    decays: bool,
) -> u32 {
    let has = |at| call.tensor(at).is_some();
    Flag::Rate.if_(has(lr))
        | Flag::Scaled.if_(has(scale))
        | Flag::Checked.if_(has(found))
        | Flag::Maximize.if_(call.boolean(maximize).unwrap_or(false))
        | Flag::Decays.if_(decays)
}

/// A number; of a tensor on the device, the kernel reads it.
fn number(call: &Call<'_>, argument: usize) -> Result<f64, Decline> {
    match call.argument(argument) {
        Argument::Number(number) => Ok(float_of(&number)),
        Argument::Tensor(_) => Ok(0.0),
        _ => Err(Decline::Argument { argument, expected: "a number" }),
    }
}

fn list<'a>(call: &Call<'a>, argument: usize) -> Result<&'a [Option<TensorView<'a>>], Decline> {
    match call.argument(argument) {
        Argument::Tensors(list) => Ok(list),
        _ => Err(Decline::Argument { argument, expected: "tensors" }),
    }
}

fn item<'a>(call: &Call<'a>, argument: usize, at: usize) -> Result<TensorView<'a>, Decline> {
    let missing = Decline::Argument { argument, expected: "as many tensors as parameters" };
    list(call, argument)?.get(at).copied().flatten().ok_or(missing)
}

impl Step<'_> {
    fn recipe(&self, call: &Call<'_>) -> Result<Recipe, Decline> {
        let mut recipe = Recipe::default();
        for at in 0..list(call, 0)?.len() {
            if !item(call, 0, at)?.size.contains(&0) {
                recipe.launches.push(self.launch(call, at)?);
            }
        }
        Ok(recipe)
    }

    fn launch(&self, call: &Call<'_>, at: usize) -> Result<Launch, Decline> {
        let mut wide = Wide::default();
        for &argument in self.lists {
            wide.push(TensorRef::Item(argument, at), item(call, argument, at)?)?;
        }
        let steps = self
            .steps
            .map(|argument| Ok((TensorRef::Item(argument, at), item(call, argument, at)?)));
        let singles = self.singles.iter().filter_map(|&argument| {
            call.tensor(argument).map(|tensor| Ok((TensorRef::Argument(argument), tensor)))
        });
        let mut singles: SmallVec<[_; 4]> =
            steps.into_iter().chain(singles).collect::<Result<_, Decline>>()?;
        // Kernels read the rate last.
        if call.tensor(self.singles[0]).is_some() {
            let rate = usize::from(self.steps.is_some());
            let rate = singles.remove(rate);
            singles.push(rate);
        }
        wide.launch(self.name, self.write, self.flags, &singles, self.numbers)
    }
}

/// Tensors of one shape, beside some of one element.
#[derive(Default)]
struct Wide<'a> {
    tensors: SmallVec<[(TensorRef, TensorView<'a>); 5]>,
}

impl<'a> Wide<'a> {
    fn push(&mut self, place: TensorRef, tensor: TensorView<'a>) -> Result<(), Decline> {
        if Category::of(tensor.dtype) != Category::Float {
            return Err(Decline::DType { dtype: tensor.dtype });
        }
        if self.tensors.first().is_some_and(|(_, first)| first.size != tensor.size) {
            return Err(Decline::Shapes);
        }
        self.tensors.push((place, tensor));
        Ok(())
    }

    fn launch(
        &self,
        name: &'static str,
        write: fn(&Generated) -> String,
        flags: u32,
        singles: &[(TensorRef, TensorView<'_>)],
        numbers: &[f64],
    ) -> Result<Launch, Decline> {
        let strides = self.tensors.iter().map(|(_, tensor)| Numbers::from(tensor.stride)).collect();
        let loops = Loops::over(self.tensors[0].1.size, strides)?;
        let mut operands = SmallVec::new();
        let mut dtypes: SmallVec<[DType; 6]> = SmallVec::new();
        for ((place, tensor), stride) in self.tensors.iter().zip(&loops.strides) {
            let size = loops.size.clone();
            let stride = stride.clone();
            operands.push(OperandView { place: *place, size, stride, offset: 0 });
            dtypes.push(tensor.dtype);
        }
        for (place, tensor) in singles {
            if tensor.size.iter().product::<usize>() != 1 {
                return Err(Decline::Shapes);
            }
            lane(tensor.dtype)?;
            let one = AtLeastOne::of(&TensorView { size: &[], stride: &[], ..*tensor });
            let size = one.tensor().size.into();
            let stride = one.tensor().stride.into();
            operands.push(OperandView { place: *place, size, stride, offset: 0 });
            dtypes.push(tensor.dtype);
        }
        let numbers_of = [loops.size.len() as u32, flags, self.tensors.len() as u32];
        let kernel = Generated { name, write, dtypes, numbers: SmallVec::from_slice(&numbers_of) };
        let scalars = numbers.iter().map(|&number| Constant::Float(number).word()).collect();
        Ok(Launch { kernel: KernelSource::Generated(kernel), operands, scalars })
    }
}

/// `_amp_foreach_non_finite_check_and_unscale_(grads, found, inverse scale)`.
fn unscale(call: &Call<'_>) -> Result<Recipe, Decline> {
    let mut singles: SmallVec<[_; 2]> = SmallVec::new();
    for argument in [1, 2] {
        let tensor = call.tensor(argument);
        let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a tensor" })?;
        singles.push((TensorRef::Argument(argument), tensor));
    }
    let mut recipe = Recipe::default();
    for at in 0..list(call, 0)?.len() {
        let grad = item(call, 0, at)?;
        let mut wide = Wide::default();
        wide.push(TensorRef::Item(0, at), grad)?;
        if !grad.size.contains(&0) {
            recipe.launches.push(wide.launch("unscale", write_unscale, 0, &singles, &[])?);
        }
    }
    Ok(recipe)
}

/// `_amp_update_scale_(scale, tracker, found, growth, backoff, interval)`.
fn update_scale(call: &Call<'_>) -> Result<Recipe, Decline> {
    let mut wide = Wide::default();
    let single = |argument| {
        let tensor =
            call.tensor(argument).filter(|tensor| tensor.size.iter().all(|&size| size == 1));
        let tensor = tensor.ok_or(Decline::Argument { argument, expected: "one element" })?;
        Ok((TensorRef::Argument(argument), tensor))
    };
    let (_, scale) = single(0)?;
    wide.push(TensorRef::Argument(0), scale)?;
    let interval = call.int(5).ok_or(Decline::Argument { argument: 5, expected: "steps" })?;
    let numbers = [number(call, 3)?, number(call, 4)?, interval as f64];
    let launch =
        wide.launch("update_scale", write_scale, 0, &[single(1)?, single(2)?], &numbers)?;
    Ok(Recipe { launches: SmallVec::from_iter([launch]), ..Recipe::default() })
}
