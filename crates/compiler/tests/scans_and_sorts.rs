//! The programs of kernels that go along a dim.

use spyre_compiler::{CompileError, CompileOptions, Kernel};

fn program(text: &str) -> Result<String, CompileError> {
    let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = kernel.compile(&CompileOptions::default())?;
    Ok(plan.program(plan.steps[0].compute).expect("a compute program").to_string())
}

#[test]
fn a_scan_carries_doubles_along_a_loop_that_runs_in_order() -> Result<(), CompileError> {
    let text = "kernel k(i, j) {
        in x: float16[i, j]
        out y: float16[i, j]
        y = scan_sum<j>(x)
    }";
    let expected = "\
dims 2, scalars 0
o0: read IEEE_FP16 [d0 d1]
o1: write IEEE_FP16 [d0 d1]
r0: f64 [d0]
r1: f32 [d0 d1]
r2: f32 [d0 d1]
begin d0 tile 16 parallel
  r0 = constant -0.0
  begin d1 tile 512
    r1 = load o0
    r2 = scan_sum r1 over d1 carrying r0
    store o1 r2
  end
end
";
    assert_eq!(program(text)?, expected);
    Ok(())
}

#[test]
fn a_place_and_an_extreme_are_found_in_one_pass() -> Result<(), CompileError> {
    let text = "kernel k(i, j) {
        in x: float32[i, j]
        out at: int64[i]
        out most: float32[i]
        at = argmax<j>(x)
        most = max<j>(x)
    }";
    let program = program(text)?;
    assert_eq!(program.matches("load o0").count(), 1, "{program}");
    assert!(program.contains("  begin d1 tile 512\n    r3 = load o0\n    argmax r0 r1 r3 over d1\n    reduce max r2 r3\n  end\n"), "{program}");
    Ok(())
}

#[test]
fn one_sort_gives_places_and_elements_of_whole_rows() -> Result<(), CompileError> {
    let text = "kernel k(i, j) {
        in x: float32[i, j]
        out at: int64[i, j]
        out y: float32[i, j]
        at = order<j>(x)
        y = sort<j>(x)
    }";
    let expected = "\
begin d0 tile 4 parallel
  begin d1 all parallel
    r0 = load o0
    r1 r2 = order r0 over d1
    store o1 r1
    store o2 r2
  end
end
";
    let program = program(text)?;
    assert!(program.ends_with(expected), "{program}");
    Ok(())
}

#[test]
fn a_scan_that_crosses_another_one_is_kept() -> Result<(), CompileError> {
    let text = "kernel k(i, j) {
        in x: int64[i, j]
        out y: int64[i, j]
        y = scan_sum<i>(scan_sum<j>(x))
    }";
    let program = program(text)?;
    assert!(program.contains("o2: both IEEE_INT64 [d0 d1]"), "{program}");
    assert!(program.contains("begin d1 tile 512 parallel\n  r"), "{program}");
    Ok(())
}

#[test]
fn a_length_that_no_tensor_has_is_refused() {
    let text = "kernel k(i, j) {\nin x: int64[i]\nout y: int64[i]\ny = x + size(j)\n}";
    assert_eq!(program(text), Err(CompileError::Extent { dim: "j".into() }));
}
