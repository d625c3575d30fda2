//! Elements that are permuted and converted on the way.

use std::sync::Arc;

use spyre_layout::{DmaNest, Endpoint, Solo, SpyreTensorLayout, View};
use spyre_numerics::DataFormat;
use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32};

use super::driver::{assert_bytes, from_device, on_device, to_device};
use super::{Driver, FIRST};
use crate::random::Random;
use crate::{DeviceRange, HostBuffer, Region};

/// Byte that fills a target before a copy.
const BEFORE: u8 = 0xa5;

/// Bytes of the region before and after a target.
const MARGIN_BYTES: u64 = 384;

/// Shapes that tile evenly, end inside a stick, and are smaller than one.
const SHAPES: [&[usize]; 6] = [&[64], &[3, 100], &[2, 5, 70], &[130, 64], &[1], &[7, 65]];

fn nest(source: Endpoint<'_>, target: Endpoint<'_>) -> Arc<DmaNest> {
    Arc::new(DmaNest::derive(source, target).expect("the two fit"))
}

fn tiled(shape: &[usize], format: DataFormat) -> (View, SpyreTensorLayout) {
    let view = View::contiguous(shape).expect("it is small");
    (view, SpyreTensorLayout::contiguous(shape, format).expect("it tiles"))
}

/// Result of a plain copy on the host.
fn expected(nest: &DmaNest, source: &[u8], target_bytes: usize) -> Vec<u8> {
    let mut target = vec![BEFORE; target_bytes];
    nest.copy(source, &mut target, &Solo).expect("it fits");
    target
}

/// A range in the midst of a region of its own, all of which holds `BEFORE` at first.
struct Spot<'a> {
    driver: &'a Driver<'a>,
    region: Region,
    range: DeviceRange,
}

impl<'a> Spot<'a> {
    fn new(driver: &'a Driver<'a>, bytes: usize) -> Self {
        let region = driver.region(bytes as u64 + 2 * MARGIN_BYTES);
        let all = driver.range(region, 0, region.bytes);
        driver.upload(all, &vec![BEFORE; region.bytes as usize]);
        let range = DeviceRange { offset: MARGIN_BYTES, bytes: bytes as u64, ..all };
        Self { driver, region, range }
    }

    fn holding(driver: &'a Driver<'a>, bytes: &[u8]) -> Self {
        let spot = Self::new(driver, bytes.len());
        driver.upload(spot.range, bytes);
        spot
    }

    /// It holds `bytes`, and what lies around it is as it was. Gives the region back.
    fn assert_holds(self, bytes: &[u8], what: &str) {
        let all = DeviceRange { offset: 0, bytes: self.region.bytes, ..self.range };
        let margin = vec![BEFORE; MARGIN_BYTES as usize];
        let expected = [&margin[..], bytes, &margin].concat();
        assert_bytes(&self.driver.download(all), &expected, what);
        self.driver.hardware().release(self.region.id);
    }
}

fn check_to_device(driver: &Driver<'_>, nest: &Arc<DmaNest>, target_bytes: usize) {
    let bytes = Random::new(11).bytes(nest.source_reach_bytes());
    let target = Spot::new(driver, target_bytes);
    let copy = to_device(bytes.clone(), target.range, Some(nest.clone()));
    assert_eq!(driver.run(FIRST, copy), Ok(()));
    let expected = expected(nest, &bytes, target_bytes);
    target.assert_holds(&expected, &format!("to device: {nest}"));
}

fn check_from_device(driver: &Driver<'_>, nest: &Arc<DmaNest>, target_bytes: usize) {
    let bytes = Random::new(12).bytes(nest.source_reach_bytes());
    let source = Spot::holding(driver, &bytes);
    let host = HostBuffer::from(vec![BEFORE; target_bytes]);
    assert_eq!(driver.run(FIRST, from_device(source.range, &host, Some(nest.clone()))), Ok(()));
    let found = host.read().expect("it has ended").to_vec();
    assert_bytes(&found, &expected(nest, &bytes, target_bytes), &format!("from device: {nest}"));
    source.assert_holds(&bytes, "the source");
}

fn check_on_device(driver: &Driver<'_>, nest: &Arc<DmaNest>, target_bytes: usize) {
    let bytes = Random::new(13).bytes(nest.source_reach_bytes());
    let source = Spot::holding(driver, &bytes);
    let target = Spot::new(driver, target_bytes);
    let copy = on_device(source.range, target.range, Some(nest.clone()));
    assert_eq!(driver.run(FIRST, copy), Ok(()));
    let expected = expected(nest, &bytes, target_bytes);
    target.assert_holds(&expected, &format!("on device: {nest}"));
    source.assert_holds(&bytes, "the source");
}

pub(super) fn a_nest_puts_each_element_where_the_layout_says(driver: &Driver<'_>) {
    let (view, layout) = tiled(&[3, 100], IeeeFp16);
    let nest = nest(Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout));
    let source = Random::new(5).bytes(600);
    let target = Spot::new(driver, layout.device_bytes());
    let copy = to_device(source.clone(), target.range, Some(nest));
    assert_eq!(driver.run(FIRST, copy), Ok(()));

    let mut expected = vec![BEFORE; layout.device_bytes()];
    for (element, bytes) in source.chunks(2).enumerate() {
        let row = element / 100;
        let column = element % 100;
        let place = ((column / 64) * 3 + row) * 64 + column % 64;
        expected[place * 2..][..2].copy_from_slice(bytes);
    }
    target.assert_holds(&expected, "rows of 100 in sticks of 64");
}

pub(super) fn a_nest_tiles_on_the_way_to_the_device(driver: &Driver<'_>) {
    for shape in SHAPES {
        let (view, layout) = tiled(shape, IeeeFp16);
        let nest = nest(Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout));
        check_to_device(driver, &nest, layout.device_bytes());
    }
}

pub(super) fn a_nest_untiles_on_the_way_from_the_device(driver: &Driver<'_>) {
    for shape in SHAPES {
        let (view, layout) = tiled(shape, IeeeFp16);
        let nest = nest(Endpoint::device(&view, &layout), Endpoint::host(&view, IeeeFp16));
        check_from_device(driver, &nest, view.elements() * 2);
    }
}

pub(super) fn a_nest_permutes_on_the_device(driver: &Driver<'_>) {
    for (rows, columns) in [(3, 100), (65, 7), (128, 64)] {
        let (view, layout) = tiled(&[rows, columns], IeeeFp16);
        let (_, flipped) = tiled(&[columns, rows], IeeeFp16);
        let turned = View::new(&[rows, columns], &[1, rows], 0).expect("a transpose");
        let nest = nest(Endpoint::device(&view, &layout), Endpoint::device(&turned, &flipped));
        check_on_device(driver, &nest, flipped.device_bytes());
    }
}

pub(super) fn a_nest_converts_on_the_way_to_the_device(driver: &Driver<'_>) {
    for shape in SHAPES {
        let (view, layout) = tiled(shape, IeeeFp16);
        let nest = nest(Endpoint::host(&view, IeeeFp32), Endpoint::device(&view, &layout));
        check_to_device(driver, &nest, layout.device_bytes());
    }
}

pub(super) fn a_nest_converts_on_the_way_from_the_device(driver: &Driver<'_>) {
    for shape in SHAPES {
        let (view, layout) = tiled(shape, IeeeFp16);
        let nest = nest(Endpoint::device(&view, &layout), Endpoint::host(&view, IeeeFp32));
        check_from_device(driver, &nest, view.elements() * 4);
    }
}

pub(super) fn a_nest_converts_on_the_device(driver: &Driver<'_>) {
    let (view, half) = tiled(&[5, 90], IeeeFp16);
    let (_, single) = tiled(&[5, 90], IeeeFp32);
    let half = Endpoint::device(&view, &half);
    let single = Endpoint::device(&view, &single);
    for (source, target) in [(half, single), (single, half)] {
        let nest = nest(source, target);
        check_on_device(driver, &nest, nest.target_reach_bytes());
    }
}

pub(super) fn a_nest_of_a_slice_leaves_the_rest(driver: &Driver<'_>) {
    let (_, layout) = tiled(&[6, 100], IeeeFp16);
    let dense = View::contiguous(&[4, 31]).expect("it is small");
    let slice = View::new(&[4, 31], &[100, 3], 105).expect("it is inside"); // x[1:5, 5:98:3]
    let host = Endpoint::host(&dense, IeeeFp16);
    let device = Endpoint::device(&slice, &layout);
    check_to_device(driver, &nest(host, device), layout.device_bytes());
    check_from_device(driver, &nest(device, host), 4 * 31 * 2);
    let spread = Endpoint::host(&slice, IeeeFp16);
    check_from_device(driver, &nest(device, spread), 6 * 100 * 2);
}

pub(super) fn an_empty_nest_moves_nothing(driver: &Driver<'_>) {
    let view = View::contiguous(&[0, 5]).expect("it is small");
    let host = Endpoint::host(&view, IeeeFp16);
    let nest = nest(host, host);
    check_to_device(driver, &nest, 64);
    check_from_device(driver, &nest, 64);
    check_on_device(driver, &nest, 64);
}

pub(super) fn random_shapes_go_there_and_back(driver: &Driver<'_>) {
    let mut random = Random::new(21);
    for _ in 0..40 {
        let shape: Vec<usize> =
            (0..=random.below(3)).map(|_| 1 + random.below(90) as usize).collect();
        let shape = if shape.iter().product::<usize>() > 100_000 { &shape[..2] } else { &shape };
        let (view, layout) = tiled(shape, IeeeFp16);
        let host = Endpoint::host(&view, IeeeFp16);
        let device = Endpoint::device(&view, &layout);
        there_and_back(driver, [nest(host, device), nest(device, host)], &layout);
    }
}

fn there_and_back(driver: &Driver<'_>, nests: [Arc<DmaNest>; 2], layout: &SpyreTensorLayout) {
    let [there, back] = nests;
    let bytes = Random::new(22).bytes(there.source_reach_bytes());
    let place = Spot::new(driver, layout.device_bytes());
    let copy = to_device(bytes.clone(), place.range, Some(there));
    assert_eq!(driver.run(FIRST, copy), Ok(()));
    let host = HostBuffer::zeroed(bytes.len());
    assert_eq!(driver.run(FIRST, from_device(place.range, &host, Some(back))), Ok(()));
    assert_bytes(&host.read().expect("it has ended"), &bytes, "there and back");
    driver.hardware().release(place.region.id);
}
