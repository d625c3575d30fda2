//! Hostile sizes, strides, orders and maps: each is refused or works, and nothing panics.

use spyre_layout::{
    DmaNest, ElementArrangement, Endpoint, Solo, SpyreTensorLayout, View, restickify,
};
use spyre_numerics::DataFormat;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) % bound as u64) as usize
    }

    fn size(&mut self) -> usize {
        const EDGES: [usize; 16] = [
            0,
            1,
            2,
            3,
            63,
            64,
            65,
            127,
            1 << 16,
            1 << 31,
            1 << 40,
            1 << 59,
            1 << 62,
            1 << 63,
            usize::MAX - 1,
            usize::MAX,
        ];
        match self.below(3) {
            0 => EDGES[self.below(EDGES.len())],
            1 => self.below(8),
            _ => self.below(200),
        }
    }

    fn sizes(&mut self, most: usize) -> Vec<usize> {
        (0..self.below(most + 1)).map(|_| self.size()).collect()
    }

    fn small_sizes(&mut self, most: usize) -> Vec<usize> {
        (0..self.below(most + 1)).map(|_| self.below(9)).collect()
    }

    fn entry(&mut self) -> i64 {
        match self.below(6) {
            0 => -1,
            1 => 0,
            2 => i64::MIN,
            3 => i64::MAX,
            _ => self.size() as i64,
        }
    }

    fn format(&mut self) -> DataFormat {
        DataFormat::ALL[self.below(DataFormat::ALL.len())]
    }

    fn layout(&mut self, size: &[usize], stride: &[usize]) -> Option<SpyreTensorLayout> {
        let format = self.format();
        let layout = match self.below(5) {
            0 => SpyreTensorLayout::contiguous(size, format),
            1 => {
                let order: Vec<i64> = (0..size.len() + self.below(3))
                    .map(|at| at as i64 - self.below(2) as i64)
                    .collect();
                SpyreTensorLayout::with_dim_order(size, stride, format, &order)
            }
            2 => {
                let dims = self.small_sizes(3);
                SpyreTensorLayout::with_stick_dims(size, stride, format, &dims)
            }
            _ => {
                let mut device_size =
                    if self.below(2) == 0 { self.sizes(8) } else { self.small_sizes(8) };
                device_size.push(format.elements_per_stick());
                let map: Vec<i64> = (0..device_size.len()).map(|_| self.entry()).collect();
                SpyreTensorLayout::explicit(&device_size, &map, format).and_then(|layout| {
                    if self.below(4) == 0 { Ok(layout) } else { layout.for_host(size, stride) }
                })
            }
        };
        let arrangements = [
            ElementArrangement::Standard,
            ElementArrangement::Standard,
            ElementArrangement::Dl16ToFp32,
            ElementArrangement::Exx2,
        ];
        layout.ok().map(|layout| layout.with_element_arrangement(arrangements[self.below(4)]))
    }
}

/// Asks a layout everything there is to ask.
fn question(random: &mut Random, layout: &SpyreTensorLayout) {
    for _ in 0..4 {
        let element = random.size();
        if let Some(place) = layout.device_element(element) {
            assert!(place < layout.device_elements(), "{layout}");
            assert_eq!(layout.host_element(place), Some(element), "{layout}");
        }
        if let Some(host) = layout.host_element(random.size()) {
            assert!(layout.device_element(host).is_some(), "{layout}");
        }
    }
    let known = layout.storage_elements().is_some();
    assert_eq!(layout.dim_map().is_ok(), known);
    assert_eq!(layout.padding().is_ok(), known);
    assert_eq!(layout.stick_dims().is_ok(), known);
    assert!(!layout.to_string().is_empty());
    _ = layout.clone().set_stick_dims(&random.small_sizes(2));
}

#[test]
fn nothing_panics_and_nothing_is_written_outside() {
    const MOST_BYTES: usize = 1 << 20;
    let mut copies = 0;
    for seed in 0..300_000 {
        let mut random = Random(seed);
        let is_small = random.below(3) > 0;
        let size = if is_small { random.small_sizes(5) } else { random.sizes(9) };
        let stride: Vec<usize> = match random.below(3) {
            0 => (0..size.len()).map(|_| random.size()).collect(),
            1 => (0..size.len()).map(|_| random.below(70)).collect(),
            _ => {
                View::contiguous(&size).map_or_else(|_| size.clone(), |view| view.stride().to_vec())
            }
        };
        let offset = if random.below(2) == 0 { 0 } else { random.size() };
        let Ok(view) = View::new(&size, &stride, offset) else { continue };
        let layouts = (random.layout(&size, &stride), random.layout(&size, &stride));
        layouts.0.iter().chain(&layouts.1).for_each(|layout| question(&mut random, layout));

        let format = random.format();
        let end = |layout: &Option<SpyreTensorLayout>| layout.clone();
        let source = end(&layouts.0);
        let target = end(&layouts.1);
        let from =
            source.as_ref().map_or(Endpoint::host(&view, format), |l| Endpoint::device(&view, l));
        let to =
            target.as_ref().map_or(Endpoint::host(&view, format), |l| Endpoint::device(&view, l));
        if let Some(layout) = &source {
            _ = layout.access(&view);
        }
        let Ok(nest) = DmaNest::derive(from, to) else { continue };
        assert!(!nest.to_string().is_empty() || nest.elements() == 0);
        let reach = (nest.source_reach_bytes(), nest.target_reach_bytes());
        if reach.0.max(reach.1) > MOST_BYTES || nest.elements() > MOST_BYTES {
            continue;
        }
        let bytes = vec![0x3C; reach.0];
        let mut buffer = vec![0xA5; reach.1 + 128];
        nest.copy(&bytes, &mut buffer[64..64 + reach.1], &Solo).expect("as long as it reaches");
        assert!(buffer[..64].iter().chain(&buffer[64 + reach.1..]).all(|&byte| byte == 0xA5));
        copies += 1;
        if let (Some(source), Some(target)) = (&source, &target) {
            let bytes = (source.device_bytes(), target.device_bytes());
            if bytes.0.max(bytes.1) < MOST_BYTES {
                _ = restickify(source, &vec![0; bytes.0], target, &mut vec![0; bytes.1], &Solo);
            }
        }
    }
    assert!(copies > 30_000, "only {copies} cases were legal");
}
