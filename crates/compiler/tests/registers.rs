//! Numbers of registers that the programs of kernels take.

use std::fmt::Write;

use spyre_artifact::Program;
use spyre_compiler::{CompileError, CompileOptions, Kernel};

fn program(text: &str) -> Result<Program, CompileError> {
    let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = kernel.compile(&CompileOptions::default())?;
    Ok(plan.program(plan.steps[0].compute).expect("a compute program").clone())
}

/// A chain of so many steps, each of which needs the one before it twice.
fn chain(steps: usize) -> String {
    let mut text =
        "kernel chain(i) {\nin x: float32[i]\nout y: float32[i]\nt0 = x * 2\n".to_owned();
    for step in 1..steps {
        let before = step - 1;
        writeln!(text, "t{step} = sin(t{before}) + t{before}").expect("a string");
    }
    write!(text, "y = t{}\n}}", steps - 1).expect("a string");
    text
}

#[test]
fn a_chain_takes_as_many_registers_as_one_step() -> Result<(), CompileError> {
    let short = program(&chain(3))?;
    let long = program(&chain(5000))?;
    assert_eq!(long.registers(), short.registers());
    assert_eq!(short.registers().len(), 3, "{short}");
    Ok(())
}

#[test]
fn an_elementwise_step_works_in_place() -> Result<(), CompileError> {
    let text = "kernel k(i) {\nin x: float32[i]\nout y: float32[i]\ny = exp(sin(-x))\n}";
    let program = program(text)?;
    assert!(program.to_string().contains("r0 = load o0\n  r0 = neg r0\n"), "{program}");
    assert_eq!(program.registers().len(), 1);
    Ok(())
}

/// A kernel with so many sums that are needed at once.
fn crowd(sums: usize) -> String {
    let mut text = "kernel many(i, j) {\nin x: float32[i, j]\nout y: float32[i, j]\n".to_owned();
    for at in 0..sums {
        writeln!(text, "s{at} = x / (sum<i, j>(x * {at}) + 1)").expect("a string");
    }
    let sum: Vec<String> = (0..sums).map(|at| format!("s{at}")).collect();
    write!(text, "y = {}\n}}", sum.join(" + ")).expect("a string");
    text
}

#[test]
fn more_than_sixty_four_at_once_are_computed_in_parts() -> Result<(), CompileError> {
    let program = program(&crowd(100))?;
    assert!(program.registers().len() <= 64, "{program}");
    Ok(())
}

#[test]
fn a_kernel_that_needs_too_many_parts_is_refused() {
    let refused = program(&crowd(1200)).expect_err("too many sums are needed at once");
    assert!(refused.to_string().contains("at most 64"), "{refused}");
}

#[test]
fn what_was_written_before_a_parallel_loop_is_not_written_in_it() -> Result<(), CompileError> {
    let text = "kernel k(i) {
        in x: float32[i]
        out y: float32[i]
        s = sum<i>(x)
        y = x * sum<i>(x * s) * 2
    }";
    let program = program(text)?.to_string();
    // The first sum is not needed any more, and could make room for the number two.
    let (before, parallel) = program.split_once("parallel\n").expect("a parallel loop");
    assert!(before.contains("r0: f32 []\n") && before.contains("  reduce sum r0"), "{program}");
    assert!(parallel.contains("= constant 2.0") && !parallel.contains("r0 ="), "{program}");
    Ok(())
}

/// Means and deviations are stored between the loops of the rows, which are walked over three times;
/// what is the same all along a row is computed before it, and the differences that the last loop needs
/// again are not written over.
#[test]
fn a_layer_norm_is_one_nest_of_loops() -> Result<(), CompileError> {
    let text = "kernel k(i, j) {
        in x: float32[i, j]
        out mean: float32[i]
        out rstd: float32[i]
        out y: float32[i, j]
        m = sum<j>(x) / f32(size(j))
        d = x - m
        s = rsqrt(sum<j>(d * d) / f32(size(j)) + 0.00001)
        mean = m
        rstd = s
        y = d * s
    }";
    let program = program(text)?.to_string();
    assert_eq!(program.matches("begin d0").count(), 1, "{program}");
    let bodies: Vec<&str> = program.split("begin d1").skip(1).collect();
    let [_, squares, scales] = bodies.as_slice() else { panic!("three loops:\n{program}") };
    let (squares, stores) = squares.split_once("end\n").expect("a loop's end");
    assert!(squares.contains("r1 = sub r1 r0\n"), "{program}");
    assert!(squares.contains("= mul r1 r1\n") && !squares.contains("r1 = mul"), "{program}");
    assert!(stores.contains("store o1 r0\n") && stores.contains("store o2 "), "{program}");
    let (scales, _) = scales.split_once("end\n").expect("a loop's end");
    assert_eq!(scales.matches(" = ").count(), 3, "load, sub and mul:\n{program}");
    Ok(())
}
