//! Every layout that the original's documentation gives in numbers.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use spyre_layout::{DmaNest, Endpoint, Error, Solo, SpyreTensorLayout, View};
use spyre_numerics::DataFormat::{self, BFloat16, IeeeFp16, IeeeFp32, Sen169Fp16};
use spyre_numerics::{DType, Overflow, Profile};

/// Host size, dimension order, device size, stride map.
type Ordered = (&'static [usize], &'static [i64], &'static [usize], &'static [i64]);
/// Host size, host stride, device size, stride map.
type Explicit = (&'static [usize], &'static [usize], &'static [usize], &'static [i64]);

fn row_major(size: &[usize]) -> Vec<usize> {
    View::contiguous(size).expect("a small tensor").stride().to_vec()
}

#[track_caller]
fn ordered(size: &[usize], dim_order: &[i64]) -> SpyreTensorLayout {
    SpyreTensorLayout::with_dim_order(size, &row_major(size), Sen169Fp16, dim_order)
        .expect("a legal layout")
}

#[track_caller]
fn assert_layout(layout: &SpyreTensorLayout, device_size: &[usize], stride_map: &[i64]) {
    assert_eq!(layout.device_size(), device_size);
    assert_eq!(layout.stride_map(), stride_map);
}

#[test]
fn default_layouts_are_the_published_ones() {
    let pins: [(&[usize], &[usize], &[i64]); 13] = [
        (&[], &[1, 64], &[-1, -1]),
        (&[120], &[2, 64], &[64, 1]),
        (&[128], &[2, 64], &[64, 1]),
        (&[512, 240], &[4, 512, 64], &[64, 240, 1]),
        (&[512, 256], &[4, 512, 64], &[64, 256, 1]),
        (&[1024, 256], &[4, 1024, 64], &[64, 256, 1]),
        (&[512, 8, 240], &[8, 4, 512, 64], &[240, 64, 1920, 1]),
        (&[512, 8, 256], &[8, 4, 512, 64], &[256, 64, 2048, 1]),
        (&[128, 256, 512], &[256, 8, 128, 64], &[512, 64, 131_072, 1]),
        (&[50, 10, 200], &[10, 4, 50, 64], &[200, 64, 2000, 1]),
        (&[2, 3, 4, 128], &[3, 4, 2, 2, 64], &[512, 128, 64, 1536, 1]),
        (&[5, 1, 64], &[1, 1, 5, 64], &[-1, 64, 64, 1]),
        (&[2], &[1, 64], &[64, 1]),
    ];
    for (size, device_size, stride_map) in pins {
        let layout = SpyreTensorLayout::contiguous(size, Sen169Fp16).expect("a default layout");
        assert_layout(&layout, device_size, stride_map);
    }
}

#[test]
fn ordered_layouts_are_the_published_ones() {
    let pins: [Ordered; 8] = [
        (&[512, 256], &[1, 0], &[8, 256, 64], &[16384, 1, 256]),
        (&[512, 8, 256], &[0, 2, 1], &[256, 1, 512, 64], &[1, 16384, 2048, 256]),
        (&[512, 8, 256], &[1, 0, 2], &[512, 4, 8, 64], &[2048, 64, 256, 1]),
        (&[512, 8, 256], &[1, 2, 0], &[256, 8, 8, 64], &[1, 131_072, 256, 2048]),
        (&[512, 8, 256], &[2, 0, 1], &[512, 1, 256, 64], &[2048, 16384, 1, 256]),
        (&[512, 8, 256], &[2, 1, 0], &[8, 8, 256, 64], &[256, 131_072, 1, 2048]),
        (&[512, 256], &[0, 1, -1], &[256, 1, 512, 64], &[1, -1, 256, -1]),
        (&[512, 256], &[0, 1], &[4, 512, 64], &[64, 256, 1]),
    ];
    for (size, dim_order, device_size, stride_map) in pins {
        assert_layout(&ordered(size, dim_order), device_size, stride_map);
    }
}

#[test]
fn a_stick_dimension_of_one_element_is_sparse() {
    let layout =
        SpyreTensorLayout::with_dim_order(&[512, 256, 1], &[256, 1, 1], Sen169Fp16, &[0, 1, 2])
            .expect("a legal layout");
    assert_layout(&layout, &[256, 1, 512, 64], &[1, -1, 256, -1]);
}

#[test]
fn linear_weights_have_their_stick_on_the_outputs() {
    assert_eq!(ordered(&[1024, 4096], &[1, 0]).device_size()[0], 16);
    assert_eq!(ordered(&[128, 64], &[1, 0]).device_size()[0], 2);
}

#[test]
fn device_bytes_are_whole_sticks() {
    let bytes = |size: &[usize], format| {
        SpyreTensorLayout::contiguous(size, format).expect("a layout").device_bytes()
    };
    assert_eq!(bytes(&[64, 64], Sen169Fp16), 8192);
    assert_eq!(bytes(&[2], Sen169Fp16), 128);
    assert_eq!(bytes(&[], Sen169Fp16), 128);
    assert_eq!(bytes(&[0, 7], Sen169Fp16), 0);
    assert_eq!(bytes(&[3, 5], IeeeFp32), 3 * 128);
}

#[test]
fn the_text_of_a_layout_is_exact() {
    let layout = SpyreTensorLayout::contiguous(&[512, 256], Sen169Fp16).expect("a layout");
    let text = "SpyreTensorLayout(device_size=[4, 512, 64], stride_map =[64, 256, 1], \
                device_dtype=DataFormats.SEN169_FP16)";
    assert_eq!(layout.to_string(), text);
    assert_eq!(format!("{layout:?}"), text);
}

#[test]
fn layouts_are_equal_by_what_they_say_of_the_device() {
    let hash = |layout: &SpyreTensorLayout| {
        let mut hasher = DefaultHasher::new();
        layout.hash(&mut hasher);
        hasher.finish()
    };
    let tiled = SpyreTensorLayout::contiguous(&[512, 256], Sen169Fp16).expect("a layout");
    let explicit =
        SpyreTensorLayout::explicit(&[4, 512, 64], &[64, 256, 1], Sen169Fp16).expect("a layout");
    assert_eq!(tiled, explicit);
    assert_eq!(hash(&tiled), hash(&explicit));
    let half = SpyreTensorLayout::contiguous(&[512, 256], IeeeFp16).expect("a layout");
    assert_ne!(tiled, half);
}

/// Copies distinct numbers in and out again, and looks each up by its place in between.
#[track_caller]
fn round_trip(size: &[usize], stride: &[usize], device_size: &[usize], stride_map: &[i64]) {
    let layout = SpyreTensorLayout::explicit(device_size, stride_map, IeeeFp16)
        .and_then(|layout| layout.for_host(size, stride))
        .unwrap_or_else(|error| panic!("{size:?} in {device_size:?}/{stride_map:?}: {error}"));
    let view = View::new(size, stride, 0).expect("a view");
    let elements = view.last_element().map_or(0, |last| last + 1);
    let host: Vec<u8> = (0..elements as u16).flat_map(u16::to_le_bytes).collect();
    let host_end = Endpoint::host(&view, IeeeFp16);
    let device_end = Endpoint::device(&view, &layout);
    let mut device = vec![0xFF; layout.device_bytes()];
    let mut back = vec![0; host.len()];

    let inward = DmaNest::derive(host_end, device_end).expect("a nest");
    inward.copy(&host, &mut device, &Solo).expect("a copy");
    let outward = DmaNest::derive(device_end, host_end).expect("a nest");
    outward.copy(&device, &mut back, &Solo).expect("a copy");

    assert_eq!(host, back, "{size:?} in {device_size:?}/{stride_map:?}");
    for element in 0..elements {
        let byte = layout.device_byte(element).expect("a place");
        assert_eq!(device[byte..byte + 2], (element as u16).to_le_bytes());
        assert_eq!(layout.host_at_byte(byte + 1), Some(element));
    }
}

#[test]
fn explicit_layouts_round_trip() {
    let one = &[1];
    let rows_60 = &[60, 1];
    let cases: [Explicit; 36] = [
        // plain
        (&[60], one, &[1, 64], &[64, 1]),
        (&[240], one, &[4, 64], &[64, 1]),
        (&[40, 120], &[120, 1], &[2, 40, 64], &[64, 120, 1]),
        (&[40, 120], &[120, 1], &[1, 120, 64], &[7680, 1, 120]),
        (&[40, 256], &[256, 1], &[1, 256, 64], &[16384, 1, 256]),
        (&[40, 256], &[256, 1], &[4, 40, 64], &[64, 256, 1]),
        // over-padded
        (&[40, 60], rows_60, &[1, 512, 64], &[3840, 1, 60]),
        (&[40, 60], rows_60, &[1, 512, 64], &[64, 60, 1]),
        (&[40, 256], &[256, 1], &[4, 512, 64], &[64, 256, 1]),
        // over-padded along the stick
        (&[40, 60], rows_60, &[2, 40, 64], &[64, 60, 1]),
        (&[2, 60], rows_60, &[2, 2, 64], &[64, 60, 1]),
        (&[5, 1, 64], &[64, 64, 1], &[1, 2, 5, 64], &[-1, 64, 64, 1]),
        // expanding
        (&[60], one, &[1, 512, 64], &[64, 0, 1]),
        // folding
        (&[40, 60], rows_60, &[38, 64], &[64, 1]),
        // leading ones
        (&[60], one, &[1, 1, 64], &[64, 60, 1]),
        (&[60], one, &[1, 1, 1, 64], &[60, 64, 60, 1]),
        (&[60], one, &[1, 1, 1, 1, 64], &[60, 60, 64, 60, 1]),
        (&[60], one, &[1, 1, 1, 1, 1, 64], &[60, 60, 60, 64, 60, 1]),
        // trailing ones
        (&[60], one, &[1, 60, 64], &[64, 1, 1]),
        (&[60], one, &[60, 1, 1, 64], &[1, 64, 1, 1]),
        (&[60], one, &[1, 60, 1, 1, 64], &[60, 1, 64, 1, 1]),
        // viewing
        (&[60], one, &[1, 2, 64], &[64, 30, 1]),
        (&[60], one, &[2, 1, 2, 64], &[15, 64, 30, 1]),
        (&[60], one, &[3, 1, 4, 64], &[5, 64, 15, 1]),
        // tiling
        (&[4800], one, &[3, 2, 14, 64], &[120, 64, 360, 1]),
        (&[40, 60], rows_60, &[24, 1, 2, 64], &[60, 64, 1440, 1]),
        (&[40, 60], rows_60, &[2, 12, 1, 2, 64], &[720, 60, 64, 1200, 1]),
        (&[40, 60], rows_60, &[2, 6, 2, 1, 2, 64], &[720, 120, 60, 64, 1200, 1]),
        (&[40, 60], rows_60, &[3, 4, 3, 1, 2, 64], &[600, 180, 60, 64, 1800, 1]),
        // permuted host
        (&[40, 60], &[1, 40], &[1, 40, 64], &[2560, 1, 40]),
        (&[40, 60], &[1, 40], &[1, 60, 64], &[64, 40, 1]),
        // one dimension for two
        (&[512, 100], &[100, 1], &[800, 64], &[64, 1]),
        // eight device dimensions
        (
            &[2, 2, 2, 2, 2, 2, 64],
            &[2048, 1024, 512, 256, 128, 64, 1],
            &[2, 2, 2, 2, 2, 1, 2, 64],
            &[1024, 512, 256, 128, 64, 64, 2048, 1],
        ),
        // sparse
        (&[40, 60], rows_60, &[60, 1, 40, 64], &[1, -1, 60, -1]),
        // a key-value cache: batch, heads, length, width
        (&[2, 3, 10, 128], &[3840, 1280, 128, 1], &[10, 3, 2, 2, 64], &[128, 1280, 64, 3840, 1]),
        // a key-value cache by slot
        (&[20, 3, 128], &[384, 128, 1], &[20, 3, 2, 64], &[384, 128, 64, 1]),
    ];
    for (size, stride, device_size, stride_map) in cases {
        round_trip(size, stride, device_size, stride_map);
    }
}

#[test]
fn a_layout_can_be_given_another_host_shape() {
    let padded = SpyreTensorLayout::explicit(&[2, 40, 64], &[64, 60, 1], IeeeFp16)
        .and_then(|layout| layout.for_host(&[40, 60], &[60, 1]))
        .expect("one stick per row is enough");
    assert_eq!(padded.device_element(64), Some(64 + 4)); // row 1, column 4
    let flat = padded.for_host(&[120], &[1]).expect("all elements have a place");
    assert_eq!(flat.device_element(64), Some(40 * 64)); // the second tile
}

#[test]
fn a_matrix_may_lie_in_the_layout_of_its_flat_form() {
    let flat =
        SpyreTensorLayout::with_dim_order(&[131_072], &[1], Sen169Fp16, &[0]).expect("a layout");
    assert_layout(&flat, &[2048, 64], &[64, 1]);
    let matrix = flat.for_host(&[512, 256], &[256, 1]).expect("all elements have a place");
    assert_eq!(matrix.device_element(131_071), Some(131_071));
}

/// `x[n / 2:]` of a vector, `w[256:, :]` and `x[:, 60:]` of matrices.
#[test]
fn sliced_sources_arrive_as_their_contiguous_copies() {
    let slices: [(&[usize], &[usize], usize); 6] = [
        (&[60], &[1], 60),
        (&[120], &[1], 120),
        (&[200], &[1], 200),
        (&[256], &[1], 256),
        (&[256, 40], &[40, 1], 256 * 40),
        (&[40, 60], &[120, 1], 60),
    ];
    for (size, stride, offset) in slices {
        let slice = View::new(size, stride, offset).expect("a slice");
        let elements = slice.last_element().expect("not empty") + 1;
        let host: Vec<u8> = (0..elements as u16).flat_map(u16::to_le_bytes).collect();
        let whole = View::contiguous(size).expect("a view");
        let layout = SpyreTensorLayout::contiguous(size, IeeeFp16).expect("a layout");
        let mut device = vec![0; layout.device_bytes()];
        let ends = (Endpoint::host(&slice, IeeeFp16), Endpoint::device(&whole, &layout));
        DmaNest::derive(ends.0, ends.1)
            .expect("a nest")
            .copy(&host, &mut device, &Solo)
            .expect("a copy");
        let first = layout.device_byte(0).expect("a place");
        let last = layout.device_byte(whole.elements() - 1).expect("a place");
        assert_eq!(device[first..first + 2], (offset as u16).to_le_bytes());
        assert_eq!(device[last..last + 2], (elements as u16 - 1).to_le_bytes());
    }
}

#[test]
fn the_nest_of_the_proposal_has_its_three_tuples() {
    let view = View::contiguous(&[1024, 256]).expect("a view");
    let layout = SpyreTensorLayout::contiguous(&[1024, 256], IeeeFp16).expect("a layout");
    let nest = DmaNest::derive(Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout))
        .expect("a nest");
    let [only] = nest.boxes() else { panic!("one box") };
    assert_eq!(only.ranges(), [4, 1024, 64]);
    assert_eq!(only.source_strides(), [64, 256, 1]);
    assert_eq!(only.target_strides(), [65536, 64, 1]);
}

/// 65504 becomes 65536 on the card, which IEEE half does not hold.
#[test]
fn what_is_too_large_on_the_way_back_may_saturate() {
    let view = View::contiguous(&[70]).expect("a view");
    let layout = SpyreTensorLayout::contiguous(&[70], Sen169Fp16).expect("a layout");
    let host = Endpoint::host(&view, IeeeFp16);
    let device = Endpoint::device(&view, &layout);
    let largest = 0x7BFF_u16.to_le_bytes().repeat(70);
    let mut stored = vec![0; layout.device_bytes()];
    let inward = DmaNest::derive(host, device).expect("a nest");
    inward.copy(&largest, &mut stored, &Solo).expect("a copy");

    let outward = DmaNest::derive(device, host).expect("a nest");
    let mut back = vec![0; 140];
    outward.copy(&stored, &mut back, &Solo).expect("a copy");
    assert_eq!(back, 0x7C00_u16.to_le_bytes().repeat(70));
    let saturating = outward.with_overflow(Overflow::Saturate);
    saturating.copy(&stored, &mut back, &Solo).expect("a copy");
    assert_eq!(back, largest);
}

/// An infinity arrives as a number, and what the card makes of a division by zero comes back as an
/// infinity.
#[test]
fn no_infinity_becomes_nan_on_the_way_to_the_card_or_back() {
    let view = View::contiguous(&[2]).expect("a view");
    let layout = SpyreTensorLayout::contiguous(&[2], Sen169Fp16).expect("a layout");
    let arrived = |format, infinity: &[u8], minus: &[u8]| {
        let host = Endpoint::host(&view, format);
        let device = Endpoint::device(&view, &layout);
        let mut stored = vec![0; layout.device_bytes()];
        let inward = DmaNest::derive(host, device).expect("a nest");
        inward.copy(&[infinity, minus].concat(), &mut stored, &Solo).expect("a copy");
        [[stored[0], stored[1]], [stored[2], stored[3]]].map(u16::from_le_bytes)
    };
    assert_eq!(arrived(IeeeFp16, &[0x00, 0x7C], &[0x00, 0xFC]), [0x5E00, 0xDE00]);
    assert_eq!(arrived(BFloat16, &[0x80, 0x7F], &[0x80, 0xFF]), [0x7FFE, 0xFFFE]);
    let infinity = f32::INFINITY.to_le_bytes();
    let minus = f32::NEG_INFINITY.to_le_bytes();
    assert_eq!(arrived(IeeeFp32, &infinity, &minus), [0x7FFE, 0xFFFE]);

    let mut stored = vec![0; layout.device_bytes()];
    stored[..4].copy_from_slice(&[0xFF, 0x7F, 0xFF, 0xFF]);
    for (format, expected) in [
        (IeeeFp16, vec![0x00, 0x7C, 0x00, 0xFC]),
        (BFloat16, vec![0x80, 0x7F, 0x80, 0xFF]),
        (IeeeFp32, [infinity, minus].concat()),
    ] {
        let host = Endpoint::host(&view, format);
        let device = Endpoint::device(&view, &layout);
        let mut back = vec![0; expected.len()];
        let outward = DmaNest::derive(device, host).expect("a nest");
        outward.copy(&stored, &mut back, &Solo).expect("a copy");
        assert_eq!(back, expected, "{format}");
    }
}

#[test]
fn every_ragged_dimension_doubles_the_boxes() {
    let boxes = |size: &[usize], stick_dims: &[usize]| {
        let view = View::contiguous(size).expect("a view");
        let layout = SpyreTensorLayout::with_stick_dims(size, view.stride(), IeeeFp16, stick_dims)
            .expect("a layout");
        let ends = (Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout));
        DmaNest::derive(ends.0, ends.1).expect("a nest").boxes().len()
    };
    assert_eq!(boxes(&[128, 2, 128], &[0, 2]), 1);
    assert_eq!(boxes(&[128, 2, 130], &[0, 2]), 2);
    assert_eq!(boxes(&[130, 2, 130], &[0, 2]), 4);
}

#[test]
fn stick_dims_are_read_and_set() {
    let mut layout = SpyreTensorLayout::contiguous(&[512, 8, 256], IeeeFp16).expect("a layout");
    assert_eq!(layout.stick_dims(), Ok(vec![2]));
    for stick_dims in [vec![0], vec![1], vec![0, 2], vec![2, 0], vec![]] {
        layout.set_stick_dims(&stick_dims).expect("dimensions that exist");
        assert_eq!(layout.stick_dims(), Ok(stick_dims));
    }
    assert!(matches!(layout.set_stick_dims(&[3]), Err(Error::StickDim { dim: 3, rank: 3, .. })));
    assert!(layout.set_stick_dims(&[1, 1]).is_err());
}

#[test]
fn stick_dims_of_small_dimensions_are_kept() {
    let cases: [(&[usize], &[usize]); 6] = [
        (&[64, 64], &[1, 0]),
        (&[3, 64, 64], &[1, 2]),
        (&[2, 3, 4, 128], &[1, 3]),
        (&[2, 3, 4, 128], &[2, 3]),
        (&[1024, 1], &[1]),
        (&[1024, 1], &[]),
    ];
    for (size, stick_dims) in cases {
        let layout =
            SpyreTensorLayout::with_stick_dims(size, &row_major(size), IeeeFp16, stick_dims)
                .expect("a layout");
        assert_eq!(layout.stick_dims().expect("known"), stick_dims, "{size:?}");
    }
}

#[test]
fn a_flat_storage_is_one_run() {
    for size in [&[1000][..], &[1 << 20], &[512, 64]] {
        let view = View::contiguous(size).expect("a view");
        let layout = SpyreTensorLayout::contiguous(size, IeeeFp16).expect("a layout");
        let ends = (Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout));
        let nest = DmaNest::derive(ends.0, ends.1).expect("a nest");
        assert_eq!(nest.to_string(), format!("({0}), (1), (1)", view.elements()));
    }
}

#[test]
fn dims_and_padding_are_mapped_to_the_host() {
    let layout = ordered(&[512, 240], &[1, 0]);
    assert_eq!(layout.dim_map(), Ok(vec![Some(0), Some(1), Some(0)]));
    assert_eq!(layout.padding(), Ok(vec![0, 0]));
    let ragged = SpyreTensorLayout::contiguous(&[3, 100], Sen169Fp16).expect("a layout");
    assert_eq!(ragged.padding(), Ok(vec![0, 28]));
    let explicit =
        SpyreTensorLayout::explicit(&[1, 512, 64], &[3840, 1, 60], Sen169Fp16).expect("a layout");
    assert_eq!(explicit.padding(), Err(Error::NoHostShape));
    let bound = explicit.for_host(&[40, 60], &[60, 1]).expect("all elements have a place");
    assert_eq!(bound.padding(), Ok(vec![24, 452]));
    let folded = SpyreTensorLayout::explicit(&[38, 64], &[64, 1], Sen169Fp16)
        .and_then(|layout| layout.for_host(&[40, 60], &[60, 1]))
        .expect("a layout");
    assert_eq!(folded.padding(), Ok(vec![0, 32]));
    let collapsed =
        SpyreTensorLayout::contiguous(&[2, 3, 2, 5, 2, 3, 130], Sen169Fp16).expect("a layout");
    assert_eq!(collapsed.padding(), Ok(vec![0, 0, 0, 0, 0, 0, 62]));
}

#[test]
fn default_layouts_exist_at_any_rank_but_not_on_the_card() {
    for rank in 0..=20 {
        let size = vec![2; rank];
        let layout = SpyreTensorLayout::for_dtype(Profile::Open, &size, DType::Float16)
            .expect("outer dimensions collapse");
        assert!(layout.device_size().len() <= 7);
        let last = (1 << rank) - 1;
        let place = layout.device_element(last).expect("a place");
        assert_eq!(layout.host_element(place), Some(last));
        let on_card = SpyreTensorLayout::for_dtype(Profile::Card, &size, DType::Float16);
        assert_eq!(on_card.is_ok(), rank <= 6, "rank {rank}");
    }
    let permuted_stride: Vec<usize> = (0..9).map(|dim| 1 << dim).collect();
    let order: Vec<i64> = (0..9).collect();
    let permuted = SpyreTensorLayout::with_dim_order(&[2; 9], &permuted_stride, IeeeFp16, &order);
    assert!(permuted.is_ok());
}

#[test]
fn empty_tensors_have_layouts_and_nests() {
    for size in [&[0][..], &[0, 5], &[5, 0], &[3, 0, 4], &[0; 8], &[2, 0, 0, 0, 0, 0, 0, 2]] {
        let layout = SpyreTensorLayout::contiguous(size, IeeeFp16).expect("a layout");
        assert_eq!(layout.device_bytes(), 0);
        let view = View::contiguous(size).expect("a view");
        let ends = (Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout));
        let nest = DmaNest::derive(ends.0, ends.1).expect("a nest");
        assert_eq!(nest.elements(), 0);
        assert_eq!(nest.copy(&[], &mut [], &Solo), Ok(()));
    }
}

#[test]
fn the_open_profile_keeps_every_dtype_in_its_own_width() {
    for dtype in DType::ALL {
        let layout = SpyreTensorLayout::for_dtype(Profile::Open, &[3, 5], dtype).expect("exact");
        let bytes = dtype.host_format().element_bytes().expect("addressable");
        assert_eq!(layout.elements_per_stick(), 128 / bytes, "{dtype}");
    }
    let refused = SpyreTensorLayout::for_dtype(Profile::Card, &[3], DType::Float64);
    assert!(refused.expect_err("refused").to_string().contains("does not support dtype"));
    assert!(SpyreTensorLayout::contiguous(&[3], DataFormat::SenInt4).is_err());
}
