//! Copies large enough for threads, for stores past the cache and for joined boxes, against a loop
//! over elements.

use spyre_layout::{Crew, DmaNest, Endpoint, Solo, SpyreTensorLayout, View};
use spyre_numerics::{Converter, DataFormat, Specials};

const SENTINEL: u8 = 0xA5;

/// One end: a view, and a layout if it is on the device.
struct End {
    view: View,
    layout: Option<SpyreTensorLayout>,
    format: DataFormat,
}

impl End {
    fn host(size: &[usize], stride: &[usize], offset: usize, format: DataFormat) -> Self {
        let view = View::new(size, stride, offset).expect("a view");
        Self { view, layout: None, format }
    }

    fn device(view: View, layout: SpyreTensorLayout) -> Self {
        let format = layout.device_dtype();
        Self { view, layout: Some(layout), format }
    }

    fn whole(layout: SpyreTensorLayout) -> Self {
        let view = View::new(layout.dma_sizes(), layout.dma_strides(), 0).expect("a view");
        Self::device(view, layout)
    }

    fn endpoint(&self) -> Endpoint<'_> {
        match &self.layout {
            Some(layout) => Endpoint::device(&self.view, layout),
            None => Endpoint::host(&self.view, self.format),
        }
    }

    fn bytes(&self) -> usize {
        let width = self.format.element_bytes().expect("addressable");
        match &self.layout {
            Some(layout) => layout.device_bytes(),
            None => self.view.last_element().map_or(0, |last| (last + 1) * width),
        }
    }

    fn place(&self, index: &[usize]) -> usize {
        let element = self.view.element(index);
        match &self.layout {
            Some(layout) => layout.device_element(element).expect("a place"),
            None => element,
        }
    }
}

/// Copies with one thread and with several, to an aligned target and to a shifted one.
#[track_caller]
fn check(source: &End, target: &End) {
    let nest = DmaNest::derive(source.endpoint(), target.endpoint()).expect("a legal copy");
    let bytes: Vec<u8> =
        (0..source.bytes()).map(|at| (at.wrapping_mul(0x9E37_79B1) >> 13) as u8 & 0xBF).collect();
    let expected = expected(&bytes, source, target);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("a pool");
    let crews: [&dyn Crew; 2] = [&Solo, &pool];
    for crew in crews {
        for shift in [0, 1, 16] {
            let mut buffer = vec![SENTINEL; target.bytes() + 256];
            let start = buffer.as_ptr().align_offset(64) + shift;
            let result = &mut buffer[start..][..target.bytes()];
            nest.copy(&bytes, result, crew).expect("long enough");
            let wrong =
                result.iter().zip(&expected).position(|(given, expected)| given != expected);
            assert_eq!(wrong, None, "{} threads, shift {shift}: {nest}", crew.threads());
            let outside = buffer[..start].iter().chain(&buffer[start + target.bytes()..]);
            assert!(outside.into_iter().all(|&byte| byte == SENTINEL), "a guard byte changed");
        }
    }
}

fn expected(bytes: &[u8], source: &End, target: &End) -> Vec<u8> {
    let specials = if source.layout.is_none() { Specials::Arriving } else { Specials::Ordered };
    let converter = Converter::new(source.format, target.format).expect("addressable");
    let converter = converter.with_specials(specials);
    let from = source.format.element_bytes().expect("addressable");
    let to = target.format.element_bytes().expect("addressable");
    let mut expected = vec![SENTINEL; target.bytes()];
    let [rows, columns] = source.view.size()[..] else { panic!("a matrix") };
    for row in 0..rows {
        for column in 0..columns {
            let at = source.place(&[row, column]);
            let slot = target.place(&[row, column]);
            let element = &bytes[at * from..][..from];
            converter.convert(element, &mut expected[slot * to..][..to]).expect("one element");
        }
    }
    expected
}

const ROWS: usize = 1500;
const COLUMNS: usize = 1537;

fn tiled(format: DataFormat) -> SpyreTensorLayout {
    SpyreTensorLayout::contiguous(&[ROWS, COLUMNS], format).expect("a layout")
}

fn host(format: DataFormat) -> End {
    End::host(&[ROWS, COLUMNS], &[COLUMNS, 1], 0, format)
}

const PAIRS: [(DataFormat, DataFormat); 9] = [
    (DataFormat::IeeeFp16, DataFormat::IeeeFp16),
    (DataFormat::IeeeFp32, DataFormat::IeeeFp32),
    (DataFormat::Complex128, DataFormat::Complex128),
    (DataFormat::UInt8, DataFormat::UInt8),
    (DataFormat::IeeeFp16, DataFormat::Sen169Fp16),
    (DataFormat::IeeeFp32, DataFormat::Sen169Fp16),
    (DataFormat::Sen169Fp16, DataFormat::IeeeFp32),
    (DataFormat::IeeeFp32, DataFormat::IeeeFp16),
    (DataFormat::IeeeInt64, DataFormat::IeeeInt32),
];

#[test]
fn large_tensors_go_in_and_out_exactly() {
    for (from, to) in PAIRS {
        check(&host(from), &End::whole(tiled(to)));
        check(&End::whole(tiled(from)), &host(to));
    }
}

#[test]
fn large_transposed_sources_go_in_exactly() {
    for (from, to) in PAIRS {
        let turned = End::host(&[ROWS, COLUMNS], &[1, ROWS], 0, from);
        check(&turned, &End::whole(tiled(to)));
    }
}

#[test]
fn large_shifted_views_are_copied_exactly() {
    for (format, shift) in [
        (DataFormat::IeeeFp16, 3),
        (DataFormat::IeeeFp32, 31),
        (DataFormat::UInt8, 100),
        (DataFormat::IeeeFp64, 5),
    ] {
        let size = [ROWS, COLUMNS - shift];
        let slice = || View::new(&size, &[COLUMNS, 1], shift).expect("a slice");
        let target = SpyreTensorLayout::contiguous(&size, format).expect("a layout");
        check(&End::device(slice(), tiled(format)), &End::whole(target.clone()));
        check(&End::device(slice(), tiled(format)), &End::host(&size, &[size[1], 1], 0, format));
        check(&End::host(&size, &[COLUMNS, 1], shift, format), &End::whole(target));
        check(&End::host(&size, &[size[1], 1], 0, format), &End::device(slice(), tiled(format)));
    }
}

#[test]
fn large_tensors_change_their_sticks_exactly() {
    for format in [DataFormat::IeeeFp16, DataFormat::IeeeFp32, DataFormat::SenInt8] {
        let mut columns = tiled(format);
        columns.set_stick_dims(&[0]).expect("dimension 0 exists");
        let mut blocks = tiled(format);
        blocks.set_stick_dims(&[0, 1]).expect("both exist");
        check(&End::whole(tiled(format)), &End::whole(columns.clone()));
        check(&End::whole(columns), &End::whole(blocks.clone()));
        check(&End::whole(blocks), &End::whole(tiled(format)));
    }
}

#[test]
fn runs_shorter_than_a_line_are_gathered_exactly() {
    let size = [40_000, 66];
    let strided = View::new(&size, &[66, 1], 0).expect("a view");
    let layout =
        SpyreTensorLayout::explicit(&[33, 1, 40_000, 64], &[2, 64, 66, 1], DataFormat::IeeeFp16)
            .and_then(|layout| layout.for_host(&size, &[66, 1]))
            .expect("a layout of two elements per stick");
    let host = End::host(&size, &[66, 1], 0, DataFormat::IeeeFp16);
    check(&End::device(strided, layout), &host);
}

#[test]
fn a_long_run_is_shared_between_threads() {
    let size = [1, 3_000_001];
    let layout = SpyreTensorLayout::contiguous(&size, DataFormat::Sen169Fp16).expect("a layout");
    let flat = || End::host(&size, &[size[1], 1], 0, DataFormat::IeeeFp32);
    check(&flat(), &End::whole(layout.clone()));
    check(&End::whole(layout), &flat());
}
