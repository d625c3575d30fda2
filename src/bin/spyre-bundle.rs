//! Writes the plans of common kernels to a file, for the wheel: `spyre-bundle FILE`. It is what `spyre bundle` does,
//! without all that the command has besides: a fresh machine has a device of PyTorch minutes earlier.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::{env, fs};

use spyre::compiler::CompileOptions;
use spyre::plans::Bundle;

fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args_os().nth(1).ok_or("give the file to write: spyre-bundle FILE")?;
    let bytes = Bundle::compile_common(&CompileOptions::default())?;
    fs::write(&file, &bytes)?;
    println!("{}: {} plans", file.display(), Bundle::new(bytes)?.len());
    Ok(())
}
