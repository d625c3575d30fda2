//! Copies of random views between random layouts, against a naive loop nest.
//!
//! Each case is one seed. It lays out a storage, checks every element's place in both directions,
//! then copies a view in, out, and across to another layout: every element must land exactly once,
//! and no other byte may change, be it padding, another element, or a guard around the buffer.

mod oracle;
mod random;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use oracle::{Storage, contiguous, each_index};
use random::Random;
use spyre_layout::{Crew, DmaNest, Endpoint, Solo, View};
use spyre_numerics::{Converter, DType, DataFormat, Profile, Specials};

const CASES: u64 = 100_000;
const SENTINEL: u8 = 0xA5;
const GUARD: usize = 192;

/// Number of nests that were a single box, several boxes, and walks.
static KINDS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

#[test]
fn a_hundred_thousand_random_copies_equal_the_loop_nest() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                (thread..CASES).step_by(threads as usize).for_each(check_case);
            });
        }
    });
    let [single, several, walks] = KINDS.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(single > 100_000 && several > 30_000 && walks > 1_000, "{single} {several} {walks}");
}

fn check_case(seed: u64) {
    let result = std::panic::catch_unwind(|| run_case(seed));
    assert!(result.is_ok(), "case {seed} failed");
}

fn run_case(seed: u64) {
    let mut random = Random::new(seed);
    let size = random_size(&mut random);
    let (host_format, device_format) = random_formats(&mut random);
    let storage = Storage::random(&mut random, &size, device_format);
    let places = storage.places();
    check_places(&storage, &places);

    let view = random_view(&mut random, &storage);
    let host = random_host_view(&mut random, view.size());
    let device = copy_in(&mut random, &host, host_format, &storage, &places, &view);
    copy_out(&mut random, &device, &storage, &places, &view, host_format);
    copy_across(&mut random, &device, &storage, &places, &view);
}

fn random_size(random: &mut Random) -> Vec<usize> {
    let rank = random.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 7]);
    let mut room = random.pick(&[40, 200, 600]);
    (0..rank)
        .map(|_| {
            let most = if room > 1 { room } else { 1 };
            let size = match random.below(12) {
                0 => 1,
                1 if rank < 4 => 0,
                2 => most.min(64),
                3 => most.min(65),
                _ => random.between(1, most.min(90)),
            };
            room /= size.max(1);
            size
        })
        .collect()
}

fn random_formats(random: &mut Random) -> (DataFormat, DataFormat) {
    let dtype = random.pick(&DType::ALL);
    let formats: Vec<DataFormat> = DataFormat::addressable().collect();
    let device = match random.below(4) {
        0 => random.pick(&formats),
        1 => match Profile::Card.device_format(dtype) {
            DataFormat::Invalid => dtype.host_format(),
            format => format,
        },
        _ => dtype.host_format(),
    };
    (dtype.host_format(), device)
}

/// A view that PyTorch could make of the storage: slices, steps, permutations, expansions, and
/// reinterpretations where the host has no gaps.
fn random_view(random: &mut Random, storage: &Storage) -> View {
    if !has_gaps(storage) && storage.elements() > 0 && random.once_in(3) {
        return random_strided(random, storage.elements());
    }
    let mut size = storage.size.clone();
    let mut stride = storage.stride.clone();
    let mut offset = 0;
    if !size.contains(&0) {
        for dim in 0..size.len() {
            if random.once_in(3) {
                let start = random.below(size[dim]);
                let step = random.pick(&[1, 1, 2, 3]);
                offset += start * stride[dim];
                size[dim] = random.between(1, (size[dim] - start).div_ceil(step));
                stride[dim] *= step;
            }
        }
    }
    if random.once_in(2) {
        let order = random.permutation(size.len());
        size = order.iter().map(|&dim| size[dim]).collect();
        stride = order.iter().map(|&dim| stride[dim]).collect();
    }
    View::new(&size, &stride, offset).expect("inside the storage")
}

/// Sizes and strides that mean nothing, over distinct elements of a storage.
fn random_strided(random: &mut Random, elements: usize) -> View {
    let mut size = Vec::new();
    let mut stride = Vec::new();
    let mut reach = 0;
    for _ in 0..random.between(0, 3) {
        let step = reach + 1 + random.pick(&[0, 0, 1, 4, 50]);
        let most = (elements - 1 - reach) / step + 1;
        let count = random.between(1, most.min(70));
        reach += (count - 1) * step;
        size.insert(0, count);
        stride.insert(0, step);
    }
    let offset = random.below(elements - reach);
    if random.once_in(4) {
        size.reverse();
        stride.reverse();
    }
    View::new(&size, &stride, offset).expect("inside the storage")
}

fn random_host_view(random: &mut Random, size: &[usize]) -> View {
    let order = random.permutation(size.len());
    let mut stride = contiguous(size);
    match random.below(4) {
        0 => {
            let mut next = random.between(1, 2);
            for &dim in &order {
                stride[dim] = next;
                next *= size[dim].max(1) + random.below(2);
            }
        }
        1 if size.len() > 1 => stride.iter_mut().rev().skip(1).for_each(|stride| *stride *= 2),
        _ => {}
    }
    View::new(size, &stride, random.below(3)).expect("a small view")
}

/// Expanded dimensions, which only a source may have.
fn expanded(random: &mut Random, view: &View) -> View {
    let mut stride = view.stride().to_vec();
    if !stride.is_empty() && random.once_in(4) {
        let dim = random.below(stride.len());
        stride[dim] = 0;
    }
    View::new(view.size(), &stride, view.offset()).expect("a smaller reach")
}

fn check_places(storage: &Storage, places: &[Vec<usize>]) {
    let layout = &storage.layout;
    let sizes: Vec<usize> = storage.dims.iter().map(|dim| dim.size).collect();
    if sizes != layout.device_size() {
        assert!(storage.size.len() > 6, "{storage:?}"); // outer dimensions were collapsed
        assert_eq!(layout.device_elements(), sizes.iter().product::<usize>());
        return;
    }
    for (host, places) in places.iter().enumerate() {
        if let Some(&place) = places.first() {
            assert_eq!(layout.device_element(host), Some(place), "{storage:?} element {host}");
            assert_eq!(layout.host_element(place), Some(host), "{storage:?} place {place}");
        }
    }
    assert_eq!(layout.device_element(places.len()), None);
    let places: HashSet<usize> =
        places.iter().filter_map(|places| places.first().copied()).collect();
    for place in (0..layout.device_elements()).filter(|place| !places.contains(place)).take(300) {
        let host = layout.host_element(place);
        assert!(host.is_none_or(|host| layout.device_element(host) == Some(place)), "{storage:?}");
        assert!(host.is_none() || has_gaps(storage), "{storage:?} padding at {place}");
    }
}

/// Returns true if the host shape leaves elements of its storage out.
fn has_gaps(storage: &Storage) -> bool {
    storage.elements() != storage.size.iter().product::<usize>()
}

/// The first place of a host element, by the oracle or, for collapsed layouts, by the layout.
fn place(storage: &Storage, places: &[Vec<usize>], host: usize) -> Vec<usize> {
    let sizes = storage.dims.iter().map(|dim| dim.size);
    if sizes.eq(storage.layout.device_size().iter().copied()) {
        return places[host].clone();
    }
    vec![storage.layout.device_element(host).expect("a place")]
}

fn copy_in(
    random: &mut Random,
    host: &View,
    host_format: DataFormat,
    storage: &Storage,
    places: &[Vec<usize>],
    view: &View,
) -> Vec<u8> {
    let host = expanded(random, host);
    let width = host_format.element_bytes().expect("addressable");
    let source = random.bytes((host.last_element().map_or(0, |last| last + 1)) * width);
    let ends = (Endpoint::host(&host, host_format), Endpoint::device(view, &storage.layout));
    let nest =
        DmaNest::derive(ends.0, ends.1).unwrap_or_else(|e| panic!("{storage:?} {view:?}: {e}"));

    let device = run(&nest, &source, storage.layout.device_bytes());

    let mut expected = vec![SENTINEL; storage.layout.device_bytes()];
    let converter = Converter::new(host_format, storage.format).expect("addressable");
    let converter = converter.with_specials(Specials::Arriving);
    each_index(view.size(), |index| {
        let from = host.element(index) * width;
        for place in place(storage, places, view.element(index)) {
            put(&converter, &source[from..from + width], &mut expected, place);
        }
    });
    assert_bytes(&device, &expected, || {
        format!("in: {storage:?} {view:?} from {host:?} {host_format}")
    });
    device
}

fn copy_out(
    random: &mut Random,
    device: &[u8],
    storage: &Storage,
    places: &[Vec<usize>],
    view: &View,
    host_format: DataFormat,
) {
    let view = expanded(random, view);
    let host = random_host_view(random, view.size());
    let ends = (Endpoint::device(&view, &storage.layout), Endpoint::host(&host, host_format));
    let nest =
        DmaNest::derive(ends.0, ends.1).unwrap_or_else(|e| panic!("{storage:?} {view:?}: {e}"));
    let width = host_format.element_bytes().expect("addressable");
    let bytes = (host.last_element().map_or(0, |last| last + 1)) * width;

    let result = run(&nest, device, bytes);

    let mut expected = vec![SENTINEL; bytes];
    let converter = Converter::new(storage.format, host_format).expect("addressable");
    let converter = converter.with_specials(Specials::Ordered);
    let element = storage.format.element_bytes().expect("addressable");
    each_index(view.size(), |index| {
        let from = place(storage, places, view.element(index))[0] * element;
        put(&converter, &device[from..from + element], &mut expected, host.element(index));
    });
    assert_bytes(&result, &expected, || {
        format!("out: {storage:?} {view:?} to {host:?} {host_format}")
    });
}

fn copy_across(
    random: &mut Random,
    device: &[u8],
    storage: &Storage,
    places: &[Vec<usize>],
    view: &View,
) {
    let view = expanded(random, view);
    let other = Storage::random(random, view.size(), storage.format);
    let other_places = other.places();
    let other_view = View::new(&other.size, &other.stride, 0).expect("a host shape");
    let ends =
        (Endpoint::device(&view, &storage.layout), Endpoint::device(&other_view, &other.layout));
    let nest =
        DmaNest::derive(ends.0, ends.1).unwrap_or_else(|e| panic!("{storage:?} {view:?}: {e}"));

    let result = run(&nest, device, other.layout.device_bytes());

    let mut expected = vec![SENTINEL; other.layout.device_bytes()];
    let element = storage.format.element_bytes().expect("addressable");
    let converter = Converter::new(storage.format, storage.format).expect("addressable");
    each_index(view.size(), |index| {
        let from = place(storage, places, view.element(index))[0] * element;
        for place in place(&other, &other_places, other_view.element(index)) {
            put(&converter, &device[from..from + element], &mut expected, place);
        }
    });
    assert_bytes(&result, &expected, || format!("across: {storage:?} {view:?} to {other:?}"));
}

fn put(converter: &Converter, element: &[u8], target: &mut [u8], place: usize) {
    let width = converter.to().element_bytes().expect("addressable");
    let slot = &mut target[place * width..][..width];
    converter.convert(element, slot).expect("one element");
}

#[track_caller]
fn assert_bytes(given: &[u8], expected: &[u8], what: impl Fn() -> String) {
    assert_eq!(given.len(), expected.len());
    let wrong = given.iter().zip(expected).position(|(given, expected)| given != expected);
    assert!(wrong.is_none(), "byte {wrong:?} differs, {}", what());
}

/// Copies into a buffer of sentinels between guards.
fn run(nest: &DmaNest, source: &[u8], bytes: usize) -> Vec<u8> {
    let kind = if nest.is_walk() { 2 } else { usize::from(nest.boxes().len() > 1) };
    KINDS[kind].fetch_add(1, Ordering::Relaxed);
    let mut guarded = vec![SENTINEL; bytes + 2 * GUARD];
    nest.copy(source, &mut guarded[GUARD..GUARD + bytes], &Solo as &dyn Crew).expect("long enough");
    let (front, rest) = guarded.split_at(GUARD);
    let (body, back) = rest.split_at(bytes);
    assert!(front.iter().chain(back).all(|&byte| byte == SENTINEL), "a guard byte changed");
    body.to_vec()
}
