//! Text below the pictures: sizes, strides, bytes, padding and the DMA nest.

use spyre_numerics::DataFormat;

use super::panel::{length, tuple, wrap};
use super::sticks::Sticks;
use spyre_layout::{DmaBox, DmaNest, Endpoint, Error, View};

/// Boxes that are listed at most.
const BOXES: usize = 6;

/// The numbers of a layout.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    entries: Vec<(&'static str, String)>,
    nest: DmaNest,
}

impl Facts {
    pub(super) fn new(sticks: &Sticks, host_format: DataFormat) -> Result<Self, Error> {
        let nest = nest(sticks, host_format)?;
        let layout = sticks.layout();
        let host_elements = layout.storage_elements().unwrap_or(0);
        let host_bytes = host_elements * host_format.element_bytes().unwrap_or(0);
        let device_bytes = layout.device_bytes();
        let entries = vec![
            ("host", format!("size {}, stride {}", tuple(sticks.size()), tuple(sticks.stride()))),
            ("layout", layout.to_string()),
            ("bytes", format!("{host_bytes} on the host, {device_bytes} on the device")),
            ("padding", padding(sticks)?),
            ("DMA", "host -> device, in elements".into()),
        ];
        Ok(Self { entries, nest })
    }

    /// Headings and what stands behind them, in lines of at most `width`.
    pub(super) fn lines(&self, width: usize) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        for (heading, text) in &self.entries {
            let headings = std::iter::once(*heading).chain(std::iter::repeat(""));
            lines.extend(headings.zip(wrap(text, width)));
        }
        lines
    }

    /// The boxes of the nest, a line each, or more where that is longer than `width`.
    pub(super) fn boxes(&self, width: usize) -> Vec<String> {
        nest_lines(&self.nest, width)
    }
}

/// The nest that carries the whole tensor from the host to the device.
fn nest(sticks: &Sticks, host_format: DataFormat) -> Result<DmaNest, Error> {
    let dims = sticks.size().iter().zip(sticks.stride());
    // A stride of 0 shows one element again and again: once is enough.
    let size: Vec<usize> = dims.map(|(&n, &step)| if step == 0 { n.min(1) } else { n }).collect();
    let view = View::new(&size, sticks.stride(), 0)?;
    let host = Endpoint::host(&view, host_format);
    DmaNest::derive(host, Endpoint::device(&view, sticks.layout()))
}

fn padding(sticks: &Sticks) -> Result<String, Error> {
    let total = sticks.padding();
    let each = sticks.layout().padding()?;
    Ok(if sticks.is_regular() {
        format!("{} per dimension, {total} elements in all", tuple(&each))
    } else {
        format!("{total} elements")
    })
}

fn nest_lines(nest: &DmaNest, width: usize) -> Vec<String> {
    let boxes = nest.boxes();
    if boxes.is_empty() {
        return vec![if nest.is_walk() { "by index".into() } else { "nothing to carry".into() }];
    }
    let mut lines = table(boxes);
    if lines.iter().any(|line| length(line) > width) {
        let stacked = boxes.iter().take(BOXES).flat_map(stacked);
        lines = stacked.flat_map(|line| wrap(&line, width)).collect();
    }
    if boxes.len() > BOXES {
        lines.push(format!("and {} boxes more", boxes.len() - BOXES));
    }
    lines
}

/// One line per box, under the names of the columns.
fn table(boxes: &[DmaBox]) -> Vec<String> {
    let names = ["loop ranges", "host strides", "device strides", "offsets"];
    let mut rows = vec![names.map(String::from)];
    rows.extend(boxes.iter().take(BOXES).map(columns));
    let width = |column: usize| rows.iter().map(|row| length(&row[column])).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let line = |[ranges, host, device, offsets]: &[String; 4]| {
        let [a, b, c] = widths;
        format!("{ranges:a$}  {host:b$}  {device:c$}  {offsets}")
    };
    rows.iter().map(line).collect()
}

fn columns(dma_box: &DmaBox) -> [String; 4] {
    [
        tuple(&dma_box.ranges()),
        tuple(&dma_box.source_strides()),
        tuple(&dma_box.target_strides()),
        format!("{} -> {}", dma_box.source_offset(), dma_box.target_offset()),
    ]
}

/// The columns of a box as four lines, for boxes of many loops.
fn stacked(dma_box: &DmaBox) -> Vec<String> {
    let [ranges, host, device, offsets] = columns(dma_box);
    vec![
        format!("loop ranges    {ranges}"),
        format!("host strides   {host}"),
        format!("device strides {device}"),
        format!("offsets        {offsets}"),
    ]
}
