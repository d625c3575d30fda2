//! Every operation on floats, by its name, against the interpreter.

use std::fs;

use spyre::artifact::{BinaryOp, Constant, Lane, UnaryOp};

use crate::bed::{Bed, Failure};

const FLOATS: [&str; 4] = ["float16", "bfloat16", "float32", "float64"];

/// The dtype of what an operation gives for floats.
fn result(lane: Option<Lane>, dtype: &'static str) -> Option<&'static str> {
    lane.map(|lane| if lane == Lane::Bool { "bool" } else { dtype })
}

#[test]
fn functions_of_one_number() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for op in UnaryOp::ALL {
        for dtype in FLOATS {
            let Some(result) = result(op.result(Lane::F32), dtype) else { continue };
            let text = format!(
                "kernel k(i) {{
                    in x: {dtype}[i]
                    out y: {result}[i]
                    y = {op}(x)
                }}"
            );
            bed.check(&text, &[500], &[])?;
        }
    }
    Ok(())
}

#[test]
fn functions_of_two_numbers() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for op in BinaryOp::ALL {
        for dtype in FLOATS {
            let Some(result) = result(op.result(Lane::F32), dtype) else { continue };
            // Each with each, and small numbers only: polynomials of large degrees have large values.
            let text = format!(
                "kernel k(i, j) {{
                    in a: {dtype}[i]
                    in b: {dtype}[j]
                    out y: {result}[i, j]
                    y = {op}(a, b)
                }}"
            );
            bed.check(&text, &[70, 65], &[])?;
        }
    }
    Ok(())
}

#[test]
fn the_rows_of_the_documentation_are_kernels() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let table = fs::read_to_string("docs/pointwise.md")?;
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let mut count = 0;
    for row in rows {
        let row = row.replace("\\|", "OR");
        let code = row.split(" | ").nth(1).and_then(|cell| cell.split('`').nth(1));
        let code = code.ok_or_else(|| format!("{row} has no code"))?.replace("OR", "|");
        let (before, last) = code.rsplit_once("; ").unwrap_or(("", &code));
        let statements = before.replace("; ", "\n");
        let text = format!(
            "kernel row(i) {{
                in a: float32[i]
                in b: float32[i]
                in c: float32[i]
                in k: int64[i]
                in m: int64[i]
                out y: float32[i]
                scalar s: f32
                scalar t: f32
                scalar n: f32
                {statements}
                y = f32({last})
            }}"
        );
        let scalars = [0.5, 1.5, 1.0].map(Constant::Float);
        bed.check(&text, &[300], &scalars).map_err(|error| format!("{error} in {text}"))?;
        count += 1;
    }
    assert!(count > 50, "{count} rows");
    Ok(())
}
