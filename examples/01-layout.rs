//! Draws how a tensor lies on the host and on the device: `cargo run --example 01-layout`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a person")]

use std::io::{IsTerminal, Write, stdout};
use std::{error::Error, path::PathBuf, process::ExitCode, str::FromStr};

use clap::Parser;
use spyre::layout::{SpyreTensorLayout, View};
use spyre::numerics::{DType, Profile};
use spyre::picture::Picture;

/// Draws how a tensor lies on the host and on the device
#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value = "1024,256", help = "The tensor's size; empty for a scalar")]
    shape: String,
    #[arg(long, default_value = "float16", value_parser = DType::ALL.map(DType::name))]
    dtype: String,
    #[arg(long, default_value = "open", value_parser = ["open", "card"])]
    profile: String,
    #[arg(long, group = "tiling", help = "Dimensions cut into sticks; empty: an element a stick")]
    stick_dims: Option<String>,
    #[arg(long, group = "tiling", allow_hyphen_values = true, help = "As in 1,0: stick last")]
    dim_order: Option<String>,
    #[arg(long, group = "tiling", requires = "stride_map", help = "In full, as in 38,64")]
    device_size: Option<String>,
    #[arg(long, requires = "device_size", allow_hyphen_values = true, help = "As in 64,1")]
    stride_map: Option<String>,
    #[arg(long, default_value = "layout.svg", help = "Where the drawing goes")]
    svg: PathBuf,
}

fn main() -> ExitCode {
    let Err(error) = draw(&Arguments::parse()) else { return ExitCode::SUCCESS };
    eprintln!("01-layout: {error}");
    ExitCode::from(2)
}

fn draw(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let dtype = DType::from_name(&arguments.dtype).ok_or("no such dtype")?;
    let picture = Picture::with_host_format(&layout(arguments, dtype)?, dtype.host_format())?;
    let path = arguments.svg.display();
    std::fs::write(&arguments.svg, picture.svg()).map_err(|error| format!("{path}: {error}"))?;
    let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Ok(writeln!(stdout(), "{}\nwrote {path}", picture.terminal(colour))?)
}

fn layout(arguments: &Arguments, dtype: DType) -> Result<SpyreTensorLayout, Box<dyn Error>> {
    let profile = if arguments.profile == "card" { Profile::Card } else { Profile::Open };
    let size = numbers(&arguments.shape)?;
    let format = profile.supported_format(dtype)?;
    SpyreTensorLayout::check_rank(profile, size.len())?;
    let view = View::contiguous(&size)?;
    let stride = view.stride();
    let full = (&arguments.device_size, &arguments.stride_map);
    Ok(if let (Some(device_size), Some(stride_map)) = full {
        let device_size = numbers(device_size)?;
        let stride_map = numbers(stride_map)?;
        SpyreTensorLayout::explicit(&device_size, &stride_map, format)?.for_host(&size, stride)?
    } else if let Some(dims) = &arguments.stick_dims {
        SpyreTensorLayout::with_stick_dims(&size, stride, format, &numbers(dims)?)?
    } else if let Some(order) = &arguments.dim_order {
        SpyreTensorLayout::with_dim_order(&size, stride, format, &numbers(order)?)?
    } else {
        SpyreTensorLayout::for_dtype(profile, &size, dtype)?
    })
}

fn numbers<T: FromStr>(list: &str) -> Result<Vec<T>, String> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_err(|_| format!("{part:?} is not a number here"))).collect()
}
