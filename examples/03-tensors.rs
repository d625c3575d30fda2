//! A tensor goes to the card and comes back: `cargo run --example 03-tensors`.
#![allow(clippy::print_stdout, reason = "a program that talks to a person")]

use std::error::Error;

use spyre::picture::Picture;
use spyre::runtime::{CPUTensor, SpyreTensor};

fn main() -> Result<(), Box<dyn Error>> {
    let device = spyre::device(0)?;
    let stream = device.default_stream()?;

    let values: Vec<f32> = (0..6 * 40).map(|at| at as f32).collect();
    let host = CPUTensor::from_values(&[6, 40], &values)?;
    let tensor = SpyreTensor::from_host(&stream, &host)?; // queued, and back at once
    println!("A tensor on device {}:", device.index());
    println!("  shape {:?}, stride {:?} bytes", tensor.shape(), tensor.stride());
    println!("  {} at {}", tensor.data_type(), tensor.device_handle());
    println!("  {} bytes in sticks of 128:\n", tensor.size_bytes());
    println!("{}", Picture::new(tensor.layout())?.terminal(false));

    // Views share its memory; a copy sees them as they are.
    let corner = tensor.transpose(0, 1)?.narrow(0, 30, 3)?.narrow(1, 1, 4)?;
    let back = corner.to_host(&stream)?;
    stream.synchronize()?;
    println!("Columns 30 to 32 of rows 1 to 4, turned:");
    for row in back.values::<f32>()?.chunks(4) {
        println!("  {row:?}");
    }
    println!("\nWhat cannot be is said before anything is queued:");
    println!("  {}", tensor.narrow(1, 38, 5).expect_err("only two are left"));
    Ok(())
}
