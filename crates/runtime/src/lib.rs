//! Interface of frameworks to a card: tensors, plans, and streams that launch them.
//!
//! Above [`spyre_flex`] and [`spyre_artifact`]; it knows no compiler, and no card but by
//! [`spyre_hal::Hardware`]. A [`Device`] is an opened card. An [`ExecutionPlan`] is made from what a
//! compiler wrote, and loaded: each binary goes to device memory through a [`SpyreStream`]. Then
//! [`launch_kernel`] compares tensors with what the plan expects, and for each [`Operation`] queues
//! the copy of correction inputs, the correction, and the compute, once or for every tile.
//!
//! ```
//! use std::sync::Arc;
//! use spyre_artifact::*;
//! use spyre_hal::NullCard;
//! use spyre_numerics::{DType, DataFormat::IeeeFp16};
//! use spyre_runtime::{Device, ExecutionPlan, SpyreTensor, launch_kernel};
//!
//! let mut code = ProgramBuilder::new();
//! let n = code.dim();
//! let x = code.operand(IeeeFp16, Access::Both, [n]);
//! code.each_parallel(n, 4096, |code| {
//!     let tile = code.load(x);
//!     let root = code.unary(UnaryOp::Sqrt, tile);
//!     code.store(x, root);
//! });
//! let dims = [("n", ExpectedSize::Any)];
//! let x = TensorMetadata::new("x", DType::Float16, IeeeFp16, &dims, Role::Both);
//! let output = CompilerOutput::single("sqrt_", code.build()?, &["n"], vec![x], Vec::new())?;
//!
//! let device = Device::open(Arc::new(NullCard::new()))?; // which carries nothing out
//! let stream = device.default_stream()?;
//! let plan = ExecutionPlan::from_compiler_output(output)?;
//! plan.load(&stream)?;
//! let x = SpyreTensor::empty(&stream, &[1000], DType::Float16)?;
//! launch_kernel(&stream, &plan, &[x])?;
//! stream.synchronize()?;
//! # Ok::<(), spyre_runtime::Error>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod address_space;
mod aliasing;
mod batch;
mod binary;
pub mod blocking;
mod cached_launch;
mod compute;
mod cpu_tensor;
mod custom_layouts;
mod definition;
mod device;
mod element;
mod error;
mod fit;
mod instance;
mod job_plan;
mod launch;
mod layout_cache;
mod load;
mod loadable_plan;
mod loaded;
mod memory_copy;
mod nest_cache;
mod operation;
mod plan;
mod preprocess;
mod recipe;
mod storage;
mod storage_layout;
mod stream;
mod stream_pool;
mod tensor;
mod tensor_memory;
mod tiles;
mod words;

pub use address_space::AddressSpace;
pub use cached_launch::CachedLaunch;
pub use compute::SpyreCompute;
pub use cpu_tensor::CPUTensor;
pub use custom_layouts::shared_custom_layout;
pub use device::{Device, DeviceIndex, DeviceSettings};
pub use element::Element;
pub use error::Error;
pub use job_plan::JobPlan;
pub use launch::{Composition, Mode, launch_kernel, launch_kernel_with};
pub use layout_cache::{shared_bytes, shared_layout};
pub use memory_copy::{Return, copy_from_device, copy_on_device, copy_to_device, copy_to_peer};
pub use operation::Operation;
pub use plan::ExecutionPlan;
pub use preprocess::{DevicePlace, HostAddress, PreProcessCompute};
pub use spyre_flex::{Event, FlexAllocator as SpyreAllocator, Priority, Process};
pub use storage_layout::{SharedLayout, StorageLayout};
pub use stream::SpyreStream;
pub use stream_pool::StreamId;
pub use tensor::SpyreTensor;
pub use tensor_memory::{MemoryView, TensorMemory};
