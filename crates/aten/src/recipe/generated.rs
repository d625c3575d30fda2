//! Kernels whose text depends on how many dims their tensors have.

use std::fmt::Write;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;
use spyre_numerics::DType;

use crate::recipe::{KernelSource, Launch, OperandView, TensorRef};
use crate::views::Numbers;
use crate::{Decline, TensorView};

/// A kernel that a function writes down.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Name of its kernels; there is one function of a name.
    pub(crate) name: &'static str,
    pub(crate) write: fn(&Generated) -> String,
    /// Dtypes of its tensors, in order.
    pub(crate) dtypes: SmallVec<[DType; 6]>,
    /// Numbers that the text depends on besides.
    pub(crate) numbers: SmallVec<[u32; 8]>,
}

impl PartialEq for Generated {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.dtypes, &self.numbers) == (other.name, &other.dtypes, &other.numbers)
    }
}

impl Eq for Generated {}

impl Hash for Generated {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, &self.dtypes, &self.numbers).hash(state);
    }
}

impl Generated {
    pub(crate) fn text(&self) -> String {
        (self.write)(self)
    }

    /// A launch of it on these tensors, each in all of its dims.
    pub(crate) fn launch(
        name: &'static str,
        write: fn(&Generated) -> String,
        numbers: SmallVec<[u32; 8]>,
        tensors: &[(TensorRef, TensorView<'_>)],
    ) -> Result<Launch, Decline> {
        for (_, tensor) in tensors {
            crate::dtypes::lane(tensor.dtype)?;
        }
        let dtypes = tensors.iter().map(|(_, tensor)| tensor.dtype).collect();
        let operands = tensors.iter().map(|&(place, tensor)| OperandView {
            place,
            size: tensor.size.into(),
            stride: tensor.stride.into(),
            offset: 0,
        });
        Ok(Launch {
            kernel: KernelSource::Generated(Self { name, write, dtypes, numbers }),
            operands: operands.collect(),
            scalars: SmallVec::new(),
        })
    }
}

/// Lines of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Text {
    dims: Vec<String>,
    lines: String,
}

impl Text {
    /// Names of so many dims, which the kernel has from now on.
    pub(crate) fn dims(&mut self, letter: &str, count: usize) -> Vec<String> {
        let names: Vec<String> = (0..count).map(|at| format!("{letter}{at}")).collect();
        self.dims.extend(names.iter().cloned());
        names
    }

    /// Dims of these names, which the kernel has from now on.
    pub(crate) fn named(&mut self, dims: &str) {
        self.dims.extend(dims.split(", ").map(str::to_owned));
    }

    /// A tensor.
    pub(crate) fn operand(&mut self, role: &str, name: &str, dtype: DType, dims: &[String]) {
        self.line(format_args!("{role} {name}: {dtype}[{}]", dims.join(", ")));
    }

    /// A statement.
    pub(crate) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.lines, "    {line}");
    }

    /// The whole kernel.
    pub(crate) fn kernel(self, name: &str) -> String {
        format!("kernel aten_{name}({}) {{\n{}}}\n", self.dims.join(", "), self.lines)
    }
}

/// The number of an element, counted row by row.
pub(crate) fn row_index(dims: &[String]) -> String {
    dims[1..].iter().fold(dims[0].clone(), |outer, dim| format!("({outer} * size({dim}) + {dim})"))
}

/// A tensor without dimensions has one of one element.
pub(crate) struct AtLeastOne {
    size: Numbers,
    stride: Numbers,
    dtype: DType,
}

impl AtLeastOne {
    pub(crate) fn of(tensor: &TensorView<'_>) -> Self {
        let mut size = Numbers::from(tensor.size);
        let mut stride = Numbers::from(tensor.stride);
        if size.is_empty() {
            (size, stride) = (smallvec::smallvec![1], smallvec::smallvec![1]);
        }
        Self { size, stride, dtype: tensor.dtype }
    }

    pub(crate) fn tensor(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, size: &self.size, stride: &self.stride, offset: 0 }
    }
}
