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

mod batch;
pub mod blocking;
mod cached_launch;
mod capture;
mod cpu_tensor;
mod device;
mod element;
mod error;
mod fit;
mod graph_memory;
mod instance;
mod launch;
mod memory;
mod plan;
mod stream;
mod tensor;
mod tensor_memory;
mod words;

pub use cached_launch::CachedLaunch;
pub use capture::LaunchGraph;
pub use cpu_tensor::CPUTensor;
pub use device::{Device, DeviceIndex, DeviceSettings, StreamId};
pub use element::Element;
pub use error::Error;
pub use graph_memory::GraphMemory;
pub use launch::{Composition, Mode, launch_kernel, launch_kernel_with};
pub use memory::{
    AddressSpace, Return, SharedLayout, StorageLayout, copy_from_device, copy_on_device,
    copy_to_device, copy_to_peer, shared_bytes, shared_custom_layout, shared_layout,
};
pub use plan::{
    DevicePlace, ExecutionPlan, HostAddress, JobPlan, Operation, PreProcessCompute, SpyreCompute,
};
pub use spyre_flex::{Event, FlexAllocator as SpyreAllocator, Priority, Process};
pub use stream::SpyreStream;
pub use tensor::SpyreTensor;
pub use tensor_memory::{MemoryView, TensorMemory};

// Parts of plans and layouts that launches and tensors name without their folder.
pub(crate) use fit::tiles;
pub(crate) use memory::storage_layout;
pub(crate) use plan::{binary, definition, load, loadable_plan, recipe};
