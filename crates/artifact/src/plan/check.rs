//! Checks that the parts of a plan belong together. Errors name the part as a path in `plan.json`.

use std::collections::BTreeMap;

use super::manifest::PLAN_FILE;
use super::{
    Binding, CompilerOutput, CorrectionMetadata, CorrectionWord, ExpectedSize, InitPacket,
    InitTarget, IntermediateDim, Step,
};
use crate::Error;
use crate::isa::{
    CorrectionProgram, Dim, EntryImage, HEADER_BYTES, HandleWords, MAX_TABLE_WORDS, Operand,
    OperandField, OperandType, Program, ScalarWord, TableShape,
};

/// Names are for people: long enough for any, short enough for a line.
const MAX_NAME_BYTES: usize = 256;

/// Far past any plan, and few enough that checks of all against all stay quick.
const MAX_ENTRIES: usize = 4096;

pub(super) fn check(plan: &CompilerOutput) -> Result<(), Error> {
    check_counts(plan)?;
    let sizes = check_tensors(plan)?;
    check_intermediates(plan, &sizes)?;
    let steps = plan.steps.len();
    let metadata = plan.correction_metadata.len();
    if steps != metadata {
        let reason = format!("{metadata} entries for {steps} steps; give one per step");
        return refuse("correction_metadata".into(), reason);
    }
    for at in 0..plan.init_packets.len() {
        check_packet(plan, at)?;
    }
    for at in 0..steps {
        check_step(plan, at, &sizes)?;
    }
    Ok(())
}

fn check_counts(plan: &CompilerOutput) -> Result<(), Error> {
    let counts = [
        ("images", plan.images.len()),
        ("tensor_input_metadata", plan.tensor_input_metadata.len()),
        ("intermediates", plan.intermediates.len()),
        ("steps", plan.steps.len()),
        ("init_packets", plan.init_packets.len()),
    ];
    match counts.into_iter().find(|(_, count)| *count > MAX_ENTRIES) {
        None => Ok(()),
        Some((list, count)) => {
            refuse(list.into(), format!("{count} entries, at most {MAX_ENTRIES}"))
        }
    }
}

/// The size of each named dim.
fn check_tensors(plan: &CompilerOutput) -> Result<BTreeMap<&str, ExpectedSize>, Error> {
    let mut sizes = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (at, tensor) in plan.tensor_input_metadata.iter().enumerate() {
        let path = format!("tensor_input_metadata[{at}]");
        check_unique(&mut names, &tensor.name, &path)?;
        if tensor.format.element_bytes().is_none() {
            let reason = format!("{} cannot be addressed", tensor.format.name());
            return refuse(format!("{path}.format"), reason);
        }
        for (dim, expected) in tensor.dims.iter().enumerate() {
            let path = format!("{path}.dims[{dim}]");
            check_name(&expected.name, &path)?;
            let first = *sizes.entry(expected.name.as_str()).or_insert(expected.size);
            if first != expected.size {
                let name = &expected.name;
                let size = expected.size;
                let reason = format!("{name:?} is {size:?}, but {first:?} in a tensor before");
                return refuse(format!("{path}.size"), reason);
            }
        }
    }
    Ok(sizes)
}

fn check_intermediates(
    plan: &CompilerOutput,
    sizes: &BTreeMap<&str, ExpectedSize>,
) -> Result<(), Error> {
    let mut names = BTreeMap::new();
    for (at, intermediate) in plan.intermediates.iter().enumerate() {
        let path = format!("intermediates[{at}]");
        check_unique(&mut names, &intermediate.name, &path)?;
        for (dim, name) in intermediate.dims.iter().enumerate() {
            if let IntermediateDim::Named(name) = name {
                check_known(name, sizes, &format!("{path}.dims[{dim}]"))?;
            }
        }
        // Whatever the named dims will be, the rest must have a layout.
        let bytes = intermediate.bytes(|_| Some(1));
        bytes.or_else(|error| refuse(path, error.to_string()))?;
    }
    Ok(())
}

fn check_step(
    plan: &CompilerOutput,
    at: usize,
    sizes: &BTreeMap<&str, ExpectedSize>,
) -> Result<(), Error> {
    let path = format!("steps[{at}]");
    let step = &plan.steps[at];
    check_name(&step.name, &path)?;
    let program = step_program(plan, at)?;
    check_dims(step, program, sizes, &path)?;
    check_bindings(plan, step, program, &path)?;
    let filled = check_correction(plan, at, program)?;
    check_filled(plan, at, program, filled)
}

/// The step's program; its table and scratch must make an entry image.
fn step_program(plan: &CompilerOutput, at: usize) -> Result<&Program, Error> {
    let step = &plan.steps[at];
    let images = plan.images.len();
    let Some(program) = plan.program(step.compute) else {
        let reason = format!("image {} is no compute program of {images} images", step.compute.0);
        return refuse(format!("steps[{at}].compute"), reason);
    };
    let entry = EntryImage::new(HandleWords::NONE, program.table_shape(), step.scratch_bytes);
    match entry {
        Ok(_) => Ok(program),
        Err(error) => refuse(format!("steps[{at}].scratch_bytes"), error.to_string()),
    }
}

fn check_dims(
    step: &Step,
    program: &Program,
    sizes: &BTreeMap<&str, ExpectedSize>,
    path: &str,
) -> Result<(), Error> {
    let given = step.dims.len();
    let needed = program.dims();
    if given != needed {
        let reason = format!("{given} names, but the program has {needed} dims");
        return refuse(format!("{path}.dims"), reason);
    }
    for (dim, name) in step.dims.iter().enumerate() {
        let path = format!("{path}.dims[{dim}]");
        check_known(name, sizes, &path)?;
        if step.dims[..dim].contains(name) {
            return refuse(path, format!("{name:?} is named twice"));
        }
    }
    Ok(())
}

fn check_bindings(
    plan: &CompilerOutput,
    step: &Step,
    program: &Program,
    path: &str,
) -> Result<(), Error> {
    let given = step.bindings.len();
    let needed = program.operands().len();
    if given != needed {
        let reason = format!("{given} bindings, but the program has {needed} operands");
        return refuse(format!("{path}.bindings"), reason);
    }
    for (at, (&binding, operand)) in step.bindings.iter().zip(program.operands()).enumerate() {
        let checked = check_binding(plan, binding, operand);
        let checked = checked.and_then(|()| check_span(plan, step, binding, operand));
        checked.or_else(|reason| refuse(format!("{path}.bindings[{at}]"), reason))?;
    }
    Ok(())
}

fn check_binding(
    plan: &CompilerOutput,
    binding: Binding,
    operand: &OperandType,
) -> Result<(), String> {
    let (format, is_written) = match binding {
        Binding::Tensor(at) => {
            let tensors = &plan.tensor_input_metadata;
            let tensor = tensors.get(at as usize);
            let tensor = tensor.ok_or(format!("tensor {at} of {}", tensors.len()))?;
            (tensor.format, tensor.role.is_written())
        }
        Binding::Intermediate(at) => {
            let intermediates = &plan.intermediates;
            let intermediate = intermediates.get(at as usize);
            let count = intermediates.len();
            (intermediate.ok_or(format!("intermediate {at} of {count}"))?.format, true)
        }
    };
    if format != operand.format {
        let found = format.name();
        let expected = operand.format.name();
        return Err(format!("it holds {found}, but the program declares {expected}"));
    }
    if operand.access.writes() && !is_written {
        Err("the program writes it, but its role is input".into())
    } else {
        Ok(())
    }
}

/// A program must walk over all of a tensor, and may not write one element again and again.
fn check_span(
    plan: &CompilerOutput,
    step: &Step,
    binding: Binding,
    operand: &OperandType,
) -> Result<(), String> {
    let Binding::Tensor(at) = binding else { return Ok(()) };
    let tensor = &plan.tensor_input_metadata[at as usize];
    let spans = |name: &str| {
        let dim = step.dims.iter().position(|known| known == name);
        dim.is_some_and(|dim| operand.span.contains(Dim(dim as u8)))
    };
    let one = ExpectedSize::fixed(1);
    let missed = tensor.dims.iter().find(|dim| !spans(&dim.name) && Some(dim.size) != one);
    if let Some(dim) = missed {
        return Err(format!("the program does not walk over its dim {:?}", dim.name));
    }
    let is_of_tensor = |name: &str| tensor.dims.iter().any(|dim| dim.name == name);
    let repeated = step.dims.iter().find(|name| spans(name) && !is_of_tensor(name));
    match repeated.filter(|_| operand.access.writes()) {
        None => Ok(()),
        Some(name) => Err(format!("the program writes it along {name:?}, which it does not have")),
    }
}

/// Checks the step's correction. Returns true for each table word that it fills.
fn check_correction(
    plan: &CompilerOutput,
    at: usize,
    program: &Program,
) -> Result<Vec<bool>, Error> {
    let mut filled = vec![false; program.table_shape().words()];
    let metadata = &plan.correction_metadata[at];
    let path = format!("correction_metadata[{at}]");
    let expected_bytes = 8 * metadata.words.len() as u64;
    if metadata.input_bytes != expected_bytes {
        let words = metadata.words.len();
        let found = metadata.input_bytes;
        let reason = format!("{found}, but {words} words are {expected_bytes} bytes");
        return refuse(format!("{path}.input_bytes"), reason);
    }
    let Some(image) = plan.steps[at].correction else {
        return match metadata.words.len() {
            0 => Ok(filled),
            words => refuse(path, format!("{words} words, but the step has no correction")),
        };
    };
    let path = format!("steps[{at}].correction");
    let Some(correction) = plan.correction(image) else {
        let images = plan.images.len();
        let reason = format!("image {} is no correction program of {images} images", image.0);
        return refuse(path, reason);
    };
    check_sizes(correction, metadata, program.table_shape(), path)?;
    check_patches(plan, at, correction, &mut filled)?;
    Ok(filled)
}

fn check_sizes(
    correction: &CorrectionProgram,
    metadata: &CorrectionMetadata,
    shape: TableShape,
    path: String,
) -> Result<(), Error> {
    let found = correction.table_words() as usize;
    let needed = shape.words();
    if found != needed {
        let reason = format!("it patches a table of {found} words, but the program's has {needed}");
        return refuse(path, reason);
    }
    let found = correction.input_words() as usize;
    let needed = metadata.words.len();
    if found != needed {
        let reason = format!("it reads {found} input words, but the metadata has {needed}");
        return refuse(path, reason);
    }
    Ok(())
}

/// Every input word must arrive where its metadata says.
fn check_patches(
    plan: &CompilerOutput,
    at: usize,
    correction: &CorrectionProgram,
    filled: &mut [bool],
) -> Result<(), Error> {
    let Some(program) = plan.program(plan.steps[at].compute) else { return Ok(()) };
    let words = &plan.correction_metadata[at].words;
    let mut used = [false; MAX_TABLE_WORDS];
    let refuse_word = |word: usize, reason: String| {
        refuse(format!("correction_metadata[{at}].words[{word}]"), reason)
    };
    for patch in correction.patches() {
        for step in 0..patch.words {
            let source = patch.source_word + step;
            let target = patch.target_word + step;
            let source = source as usize;
            let target = target as usize;
            check_place(words[source], target, program)
                .or_else(|reason| refuse_word(source, reason))?;
            used[source] = true;
            filled[target] = true;
        }
    }
    match used[..words.len()].iter().position(|used| !used) {
        None => Ok(()),
        Some(word) => refuse_word(word, format!("no patch reads {}", words[word])),
    }
}

fn check_place(word: CorrectionWord, target: usize, program: &Program) -> Result<(), String> {
    let shape = program.table_shape();
    let (inside, fits) = match word {
        CorrectionWord::Operand(operand, _) => (operand.index() < shape.operands, true),
        CorrectionWord::Scalar(scalar) => (scalar.index() < shape.scalars, true),
        CorrectionWord::Extent(_) => (true, true),
        CorrectionWord::Flag(dim, _) => {
            let first = shape.scalar_word(ScalarWord(0));
            (dim.index() < program.dims(), (first..shape.words()).contains(&target))
        }
    };
    if !inside {
        return Err(format!("the step's program has no {word}"));
    }
    if !fits {
        return Err(format!("{word} is patched into table word {target}, which is no scalar"));
    }
    match word.table_word(shape) {
        Some(expected) if expected != target => {
            Err(format!("{word} belongs in table word {expected}, but is patched into {target}"))
        }
        _ => Ok(()),
    }
}

/// A program must find its addresses, extents and scalars: by correction or by init packets.
fn check_filled(
    plan: &CompilerOutput,
    at: usize,
    program: &Program,
    mut filled: Vec<bool>,
) -> Result<(), Error> {
    for packet in &plan.init_packets {
        if packet.image == InitTarget::Entry(at as u32) {
            mark(packet, &mut filled);
        }
    }
    let shape = program.table_shape();
    match needed_words(program).find(|word| word.table_word(shape).is_some_and(|at| !filled[at])) {
        None => Ok(()),
        Some(word) => {
            let reason = format!("neither correction nor an init packet fills {word}");
            refuse(format!("steps[{at}]"), reason)
        }
    }
}

fn needed_words(program: &Program) -> impl Iterator<Item = CorrectionWord> {
    use OperandField::{Handle, Layout, LimitBytes};
    let fields = [Handle(0), Handle(1), Handle(2), LimitBytes, Layout];
    let operand = move |at: usize| {
        fields.map(|field| CorrectionWord::Operand(Operand(at as u8), field)).into_iter()
    };
    let extents = (0..program.dims()).map(|dim| CorrectionWord::Extent(Dim(dim as u8)));
    let scalars = (0..program.scalars()).map(|at| CorrectionWord::Scalar(ScalarWord(at as u8)));
    (0..program.operands().len()).flat_map(operand).chain(extents).chain(scalars)
}

/// Marks the table words that a packet writes, if only in part.
fn mark(packet: &InitPacket, filled: &mut [bool]) {
    let start = (packet.offset as usize - HEADER_BYTES) / 8;
    let words = (packet.offset as usize % 8 + packet.bytes.len()).div_ceil(8);
    filled.iter_mut().skip(start).take(words).for_each(|word| *word = true);
}

fn check_packet(plan: &CompilerOutput, at: usize) -> Result<(), Error> {
    let packet = &plan.init_packets[at];
    let path = format!("init_packets[{at}]");
    let (InitTarget::Entry(step) | InitTarget::Correction(step)) = packet.image;
    if step as usize >= plan.steps.len() {
        let reason = format!("step {step} of {}", plan.steps.len());
        return refuse(format!("{path}.image"), reason);
    }
    let Some(limit) = packet_limit(plan, packet.image)? else {
        return refuse(format!("{path}.image"), format!("step {step} has no correction"));
    };
    let end = packet.offset.checked_add(packet.bytes.len() as u64);
    let first = HEADER_BYTES as u64;
    match end {
        Some(end) if packet.offset >= first && end <= limit => Ok(()),
        _ => {
            let offset = packet.offset;
            let bytes = packet.bytes.len();
            let reason = format!("{bytes} bytes at {offset} leave the range {first} to {limit}");
            refuse(format!("{path}.offset"), reason)
        }
    }
}

/// End of the part that packets may write; `None` if there is no such image.
fn packet_limit(plan: &CompilerOutput, image: InitTarget) -> Result<Option<u64>, Error> {
    match image {
        InitTarget::Entry(at) => {
            let program = step_program(plan, at as usize)?;
            let scratch_bytes = plan.steps[at as usize].scratch_bytes;
            let entry = EntryImage::new(HandleWords::NONE, program.table_shape(), scratch_bytes)?;
            Ok(Some(entry.header().allocation_bytes()))
        }
        InitTarget::Correction(at) => {
            let image = plan.steps[at as usize].correction;
            let correction = image.and_then(|image| plan.correction(image));
            Ok(correction.map(|code| HEADER_BYTES as u64 + 8 * u64::from(code.input_words())))
        }
    }
}

fn check_known(name: &str, sizes: &BTreeMap<&str, ExpectedSize>, path: &str) -> Result<(), Error> {
    if sizes.contains_key(name) {
        Ok(())
    } else {
        refuse(path.into(), format!("no tensor has a dim named {name:?}"))
    }
}

fn check_unique<'a>(
    names: &mut BTreeMap<&'a str, ()>,
    name: &'a str,
    path: &str,
) -> Result<(), Error> {
    check_name(name, path)?;
    match names.insert(name, ()) {
        None => Ok(()),
        Some(()) => refuse(format!("{path}.name"), format!("{name:?} is named twice")),
    }
}

fn check_name(name: &str, path: &str) -> Result<(), Error> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
    if fits && !name.chars().any(char::is_control) {
        Ok(())
    } else {
        let bytes = name.len();
        let most = MAX_NAME_BYTES;
        let reason = format!("a name of {bytes} bytes; give 1 to {most}, no control characters");
        refuse(format!("{path}.name"), reason)
    }
}

fn refuse<T>(path: String, reason: String) -> Result<T, Error> {
    Err(Error::Plan { file: PLAN_FILE.into(), path, reason })
}
