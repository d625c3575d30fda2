//! A layout, drawn: its sticks in the tensor, in host memory and in device memory.

mod device_memory;
mod facts;
mod host_memory;
mod lattice;
mod logical;
mod naming;
mod panel;
mod sticks;
mod svg;
mod terminal;

use spyre_numerics::DataFormat;

use facts::Facts;
use panel::Panel;
use spyre_layout::{Error, SpyreTensorLayout};
use sticks::Sticks;

/// Three pictures of one layout: the logical view, the host memory and the device memory.
///
/// A cell is a stick, or the piece of one that lies together. It has the same label and the same
/// colour in all three; colours go by tile, so that what stands together on the device is of one
/// colour. Labels are indices in which `s` counts sticks: `1023,s3` is the fourth stick of row
/// 1023. Where sticks do not follow the rows, `#n` is the n-th stick of the device. Large tensors
/// are elided in the middle: the work is that of what is drawn.
///
/// ```
/// use spyre_layout::SpyreTensorLayout;
/// use spyre_picture::Picture;
/// use spyre_numerics::DataFormat::IeeeFp16;
///
/// let layout = SpyreTensorLayout::contiguous(&[512, 240], IeeeFp16)?;
/// let picture = Picture::new(&layout)?;
/// let text = picture.terminal(false);
/// assert!(text.contains("│0,s0   │1,s0   │2,s0   │")); // neighbours on the device
/// assert!(text.contains("│0,s3 ░░│")); // 48 elements, 16 of padding
/// assert!(picture.svg().starts_with("<svg"));
/// # Ok::<(), spyre_layout::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Picture {
    sticks: Sticks,
    facts: Facts,
    host_element_bytes: usize,
}

impl Picture {
    /// The picture of a layout whose host shape is known, with the device's format on the host too.
    pub fn new(layout: &SpyreTensorLayout) -> Result<Self, Error> {
        Self::with_host_format(layout, layout.device_dtype())
    }

    /// The picture of a layout whose host shape is known, with elements of `format` on the host.
    pub fn with_host_format(layout: &SpyreTensorLayout, format: DataFormat) -> Result<Self, Error> {
        let sticks = Sticks::new(layout)?;
        let facts = Facts::new(&sticks, format)?;
        Ok(Self { sticks, facts, host_element_bytes: format.element_bytes().unwrap_or(0) })
    }

    /// The picture as text of at most 80 columns, with ANSI colours if asked.
    pub fn terminal(&self, colour: bool) -> String {
        terminal::draw(self, colour)
    }

    /// The picture as an SVG document of one page.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    /// The three panels, at most `cells` sticks wide.
    fn panels(&self, cells: usize) -> [Panel; 3] {
        let mut panels = [
            logical::panel(&self.sticks, cells),
            host_memory::panel(&self.sticks, cells, self.host_element_bytes),
            device_memory::panel(&self.sticks, cells),
        ];
        panel::paint(&mut panels);
        panels
    }

    /// Explanation of the cells and their labels.
    fn legend(&self) -> String {
        let sticks = &self.sticks;
        let per_stick = sticks.per_stick();
        format!("A cell is a stick: 128 bytes, {per_stick} elements. {}", sticks.legend())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32, SenInt8};

    use super::*;
    use spyre_layout::{ElementArrangement, View};

    fn tiled(size: &[usize]) -> SpyreTensorLayout {
        SpyreTensorLayout::contiguous(size, IeeeFp16).expect("tiles")
    }

    fn by_stick_dims(size: &[usize], stick_dims: &[usize]) -> SpyreTensorLayout {
        let view = View::contiguous(size).expect("small");
        SpyreTensorLayout::with_stick_dims(size, view.stride(), IeeeFp16, stick_dims)
            .expect("tiles")
    }

    fn explicit(
        host_size: &[usize],
        device_size: &[usize],
        stride_map: &[i64],
    ) -> SpyreTensorLayout {
        let view = View::contiguous(host_size).expect("small");
        SpyreTensorLayout::explicit(device_size, stride_map, IeeeFp16)
            .and_then(|layout| layout.for_host(host_size, view.stride()))
            .expect("covers")
    }

    fn text(layout: &SpyreTensorLayout) -> String {
        Picture::new(layout).expect("draws").terminal(false)
    }

    /// The labels of each line under a title, in order.
    fn labels(text: &str, title: &str) -> Vec<Vec<String>> {
        let panel = text.split("\n\n").find(|panel| panel.starts_with(title)).expect("is there");
        let lines = panel.lines().filter_map(|line| line.split_once('│'));
        let label = |cell: &str| cell.trim_matches([' ', '░']).to_string();
        lines.map(|(_, cells)| cells.split(['│', '║']).map(label).collect()).collect()
    }

    fn is_well_formed(svg: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').unwrap_or((tag, ">"));
            let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap_or("");
            let is_balanced = match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => open.pop() == Some(name),
                (false, true) => true,
                (false, false) => {
                    open.push(name);
                    true
                }
            };
            if !is_balanced || text.contains('>') || tag.matches('"').count() % 2 == 1 {
                return false;
            }
        }
        open.is_empty()
    }

    fn assert_renders(layout: &SpyreTensorLayout) {
        let picture = Picture::new(layout).expect("draws");
        let text = picture.terminal(false);
        let svg = picture.svg();
        for title in ["Logical view", "Host memory", "Device memory", "layout", "padding", "DMA"] {
            assert!(text.contains(title) && svg.contains(title), "{layout}: {title}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{layout}\n{text}");
        assert!(is_well_formed(&svg), "{layout}\n{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("\"-"), "{layout}\n{svg}");
        let colours = picture.terminal(true);
        assert_eq!(colours.matches("\x1b[0m").count() * 2, colours.matches("\x1b[").count());
    }

    #[test]
    fn every_kind_of_layout_renders() -> Result<(), Error> {
        let sizes: [&[usize]; 9] = [
            &[],
            &[1],
            &[1000],
            &[512, 240],
            &[3, 4, 100],
            &[2, 3, 4, 128],
            &[0],
            &[5, 0, 3],
            &[2, 3, 2, 5, 2, 3, 130],
        ];
        for size in sizes {
            assert_renders(&tiled(size));
            assert_renders(&by_stick_dims(size, &[]));
        }
        assert_renders(&by_stick_dims(&[128, 256], &[0]));
        assert_renders(&by_stick_dims(&[70, 3, 200], &[0, 2]));
        assert_renders(&explicit(&[40, 60], &[38, 64], &[64, 1]));
        assert_renders(&explicit(&[8, 64], &[3, 8, 64], &[0, 64, 1]));
        assert_renders(&explicit(&[8], &[8, 64], &[1, 0]));
        let pairs = SpyreTensorLayout::contiguous(&[9, 128], IeeeFp32)?;
        assert_renders(&pairs.with_element_arrangement(ElementArrangement::Dl16ToFp32));
        Ok(())
    }

    #[test]
    fn sticks_stand_in_the_order_of_the_proposal() {
        let text = text(&tiled(&[1024, 256]));
        let device = labels(&text, "Device memory");
        assert_eq!(device.len(), 4);
        for (tile, line) in device.iter().enumerate() {
            let rows = [0, 1, 2, 3, 4].map(|row| format!("{row},s{tile}"));
            assert_eq!(line[..5], rows);
            assert_eq!(line[5..8], ["…", &format!("1022,s{tile}"), &format!("1023,s{tile}")]);
        }
        let host = labels(&text, "Host memory").concat();
        assert_eq!(host[..6], ["0,s0", "0,s1", "0,s2", "0,s3", "1,s0", "1,s1"]);
        assert!(text.contains("(4, 1024, 64)  (64, 256, 1)  (65536, 64, 1)  0 -> 0"));
    }

    #[test]
    fn large_tensors_are_elided_to_a_terminal() {
        for (size, lines) in [(&[1024, 256][..], 45), (&[4096, 4096], 45), (&[2, 3, 4, 128], 60)] {
            let text = text(&tiled(size));
            assert!(text.lines().count() <= lines, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
        let huge = text(&tiled(&[1 << 28, 1 << 20]));
        assert!(huge.contains("562949953421312 bytes"), "{huge}");
    }

    #[test]
    fn a_stick_along_columns_lies_in_pieces() {
        let text = text(&by_stick_dims(&[128, 256], &[0]));
        assert!(text.contains("a cell is one of 64"), "{text}");
        let host = labels(&text, "Host memory");
        assert_eq!(host[0][..2], ["s0,0", "s0,1"]);
        assert_eq!(host[0], host[1]); // the same sticks, one row on
        assert_eq!(labels(&text, "Device memory")[1][..2], ["s1,0", "s1,1"]);
    }

    #[test]
    fn padding_is_shown_as_padding() {
        let sparse = text(&by_stick_dims(&[4, 2], &[]));
        assert!(sparse.contains("│3,0░░░░║0,1░░░░│1,1░░░░│"), "{sparse}");
        let blocks = text(&by_stick_dims(&[100, 64], &[0, 1]));
        assert!(blocks.contains("│68,s0  │ … │░░░░░░░│░░░░░░░│"), "{blocks}");
        assert!(blocks.contains("(28, 0) per dimension, 1792 elements in all"), "{blocks}");
    }

    #[test]
    fn folded_sticks_cross_rows() {
        let text = text(&explicit(&[40, 60], &[38, 64], &[64, 1]));
        let rows = labels(&text, "Logical view");
        assert_eq!(rows[1][..2], ["#0", "#1"]);
        assert_eq!(rows[2][..2], ["#1", "#2"]);
    }

    #[test]
    fn copies_are_marked() {
        let text = text(&explicit(&[4, 64], &[2, 4, 64], &[0, 64, 1]));
        let device = labels(&text, "Device memory").concat();
        assert!(device.starts_with(&["0,s0", "1,s0", "2,s0", "3,s0", "=0,s0"].map(String::from)));
    }

    #[test]
    fn host_memory_between_rows_is_not_the_tensors() -> Result<(), Error> {
        let rows = SpyreTensorLayout::with_dim_order(&[4, 60], &[64, 1], IeeeFp16, &[0, 1])?;
        let text = text(&rows);
        assert!(text.contains("│0,s0   │·│1,s0"), "{text}");
        assert!(text.contains("│0,s0   │1,s0"), "{text}");
        Ok(())
    }

    #[test]
    fn host_bytes_are_those_of_the_host_format() -> Result<(), Error> {
        let wide = Picture::with_host_format(&tiled(&[10, 64]), IeeeFp32)?;
        assert!(wide.terminal(false).contains("2560 on the host, 1280 on the device"));
        Ok(())
    }

    #[test]
    fn a_layout_needs_a_host_shape() -> Result<(), Error> {
        let layout = SpyreTensorLayout::explicit(&[4, 64], &[64, 1], IeeeFp16)?;
        assert_eq!(Picture::new(&layout).err(), Some(Error::NoHostShape));
        Ok(())
    }

    proptest! {
        #[test]
        fn any_tiling_renders(
            size in prop::collection::vec(prop_oneof![0_usize..4, 60..200_usize, Just(9999)], 0..6),
            stick_dims in prop::sample::subsequence(vec![0, 1, 2, 3, 4], 0..3),
            order in any::<prop::sample::Index>(),
        ) {
            let stride = View::contiguous(&size).map_or(Vec::new(), |v| v.stride().to_vec());
            let layout = SpyreTensorLayout::with_stick_dims(&size, &stride, IeeeFp16, &stick_dims);
            layout.iter().for_each(assert_renders);
            // The same elements on a host whose dimensions lie in another order.
            let turn = order.index(size.len().max(1));
            let mut turned = size.clone();
            turned.rotate_left(turn.min(size.len()));
            let mut stride = View::contiguous(&turned).map_or(Vec::new(), |v| v.stride().to_vec());
            let back = turn.min(stride.len());
            stride.rotate_right(back);
            let order: Vec<i64> = (0..size.len() as i64).collect();
            let layout = SpyreTensorLayout::with_dim_order(&size, &stride, SenInt8, &order);
            layout.iter().for_each(assert_renders);
        }

        #[test]
        fn any_explicit_layout_renders(
            size in prop::collection::vec(1_usize..90, 1..4),
            padded in prop::collection::vec(0_usize..5, 1..4),
            map in prop::collection::vec((1_usize..90, 0_usize..8), 1..4),
            lane in -1_i64..4,
        ) {
            let rows = size.iter().zip(padded.iter().cycle()).map(|(size, more)| size + more);
            let stride = View::contiguous(&rows.collect::<Vec<usize>>()).map_or(Vec::new(), |v| v.stride().to_vec());
            let entries = [0, -1, 1, 64, stride[0] as i64, 64 * stride[0] as i64, 32, 128];
            let device_size: Vec<usize> = map.iter().map(|(size, _)| *size).chain([64]).collect();
            let stride_map = map.iter().map(|(_, at)| entries[*at]).chain([lane]);
            let stride_map: Vec<i64> = stride_map.collect();
            let layout = SpyreTensorLayout::explicit(&device_size, &stride_map, IeeeFp16)
                .and_then(|layout| layout.for_host(&size, &stride));
            layout.iter().for_each(assert_renders);
        }
    }
}
