//! Refusals, with the words a person reads: a refusal writes nothing.

use spyre_layout::{
    Access, DmaNest, ElementArrangement, Endpoint, Error, Solo, SpyreTensorLayout, View, restickify,
};
use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32};

fn explicit(device_size: &[usize], stride_map: &[i64]) -> Result<SpyreTensorLayout, Error> {
    SpyreTensorLayout::explicit(device_size, stride_map, IeeeFp16)
}

fn text<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn a_refused_layout_names_the_dimension_and_the_rule() {
    assert_eq!(
        text(explicit(&[4, 32], &[32, 1])),
        "Invalid device sizes and stride map: the last device dimension is 32, \
         but a stick of DataFormats.IEEE_FP16 holds 64 elements"
    );
    assert_eq!(
        text(explicit(&[4, 64], &[-5, 1])),
        "Invalid device sizes and stride map: stride_map[0] is -5; \
         a host stride is positive and below 2^59, 0 replicates, -1 is synthetic"
    );
    assert_eq!(
        text(explicit(&[2; 9], &[1; 9])),
        "Invalid device sizes and stride map: 9 sizes and 9 strides; give 1 to 8 of each"
    );
    assert_eq!(
        text(explicit(&[3, 64], &[64, 1]).and_then(|layout| layout.for_host(&[200], &[1]))),
        "Invalid device sizes and stride map: up to device dimension 1 there is room for 192 steps \
         of 1 host elements, but the tensor needs 200"
    );
    assert_eq!(
        text(explicit(&[4, 64], &[128, 2]).and_then(|layout| layout.for_host(&[200], &[1]))),
        "Invalid tiling for dimension: 1 host elements remain after every device dimension of \
         stride map [128, 2]; one device dimension must have the host's smallest stride"
    );
    assert_eq!(
        text(SpyreTensorLayout::with_dim_order(&[2, 3], &[3, 1], IeeeFp16, &[0, 0])),
        "Incompatible host_size and dim_order: [0, 0] must hold each of the 2 dimensions once, \
         with at most one -1 behind them"
    );
    assert!(text(explicit(&[1 << 40, 1 << 40, 64], &[1, 1, 1])).contains("2^63 bytes"));
}

#[test]
fn a_refused_copy_writes_nothing() -> Result<(), Error> {
    let view = View::contiguous(&[4, 100])?;
    let layout = SpyreTensorLayout::contiguous(&[4, 100], IeeeFp16)?;
    let nest = DmaNest::derive(Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout))?;
    let mut device = vec![7; layout.device_bytes()];

    assert_eq!(
        text(nest.copy(&[0; 799], &mut device, &Solo)),
        "the source buffer holds 799 bytes, but the nest reaches 800"
    );
    assert_eq!(
        text(nest.copy(&[0; 800], &mut device[..100], &Solo)),
        format!("the target buffer holds 100 bytes, but the nest reaches {}", 7 * 128 + 72)
    );
    assert!(device.iter().all(|&byte| byte == 7));
    Ok(())
}

#[test]
fn views_that_cannot_be_copied_are_refused() -> Result<(), Error> {
    let whole = View::contiguous(&[4, 100])?;
    let layout = SpyreTensorLayout::contiguous(&[4, 100], IeeeFp16)?;
    let derive = |source: &View, target: &View| {
        DmaNest::derive(Endpoint::host(source, IeeeFp16), Endpoint::device(target, &layout))
    };

    let outside = View::new(&[4, 100], &[100, 1], 1)?;
    assert_eq!(
        text(derive(&whole, &outside)),
        "the view's last element is 400, but its storage holds 400"
    );
    let expanded = View::new(&[4, 100], &[0, 1], 0)?;
    assert_eq!(
        text(derive(&whole, &expanded)),
        "dimension 0 of the target has stride 0: its elements share one place; \
         materialise it first"
    );
    let other = View::contiguous(&[4, 99])?;
    assert_eq!(
        text(derive(&other, &whole)),
        "a view of size [4, 99] cannot be copied to one of size [4, 100]"
    );
    Ok(())
}

#[test]
fn targets_that_overlap_are_refused() -> Result<(), Error> {
    let whole = View::contiguous(&[600, 600])?;
    let layout = SpyreTensorLayout::contiguous(&[600, 600], IeeeFp32)?;
    let derive = |target: &View| {
        DmaNest::derive(Endpoint::device(&whole, &layout), Endpoint::host(target, IeeeFp32))
    };
    assert_eq!(
        text(derive(&View::new(&[600, 600], &[1, 1], 0)?)),
        "the target's 360000 elements share 1199 places; materialise it first"
    );
    assert!(derive(&View::new(&[600, 600], &[599, 1], 0)?).is_err());
    assert!(derive(&View::new(&[600, 600], &[601, 1], 0)?).is_ok());
    Ok(())
}

/// Interleaved steps that no order of the dimensions tells apart: one thread writes them.
#[test]
fn targets_that_may_overlap_are_written_by_one_thread() -> Result<(), Error> {
    let whole = View::contiguous(&[600, 600])?;
    let layout = SpyreTensorLayout::contiguous(&[600, 600], IeeeFp32)?;
    let crossing = View::new(&[600, 600], &[601, 600], 0)?;
    let ends = (Endpoint::device(&whole, &layout), Endpoint::host(&crossing, IeeeFp32));
    let nest = DmaNest::derive(ends.0, ends.1)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");

    let device: Vec<u8> = (0..layout.device_bytes()).map(|at| (at / 4 % 251) as u8).collect();
    let mut alone = vec![0; nest.target_reach_bytes()];
    let mut shared = vec![0; nest.target_reach_bytes()];
    nest.copy(&device, &mut alone, &Solo)?;
    nest.copy(&device, &mut shared, &pool)?;

    assert_eq!(alone, shared);
    Ok(())
}

/// A crew that runs each part twice, and one that has no threads.
#[test]
fn a_crew_that_breaks_its_contract_does_no_harm() -> Result<(), Error> {
    struct Twice;
    impl spyre_layout::Crew for Twice {
        fn threads(&self) -> usize {
            3
        }
        fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync)) {
            std::thread::scope(|scope| {
                (0..parts + 2).for_each(|part| {
                    scope.spawn(move || job(part));
                    scope.spawn(move || job(part));
                });
            });
        }
    }
    struct NoThreads;
    impl spyre_layout::Crew for NoThreads {
        fn threads(&self) -> usize {
            0
        }
        fn run(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {}
    }
    let view = View::contiguous(&[1000, 1000])?;
    let layout = SpyreTensorLayout::contiguous(&[1000, 1000], IeeeFp32)?;
    let ends = (Endpoint::host(&view, IeeeFp32), Endpoint::device(&view, &layout));
    let nest = DmaNest::derive(ends.0, ends.1)?;
    let host: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut results = [(); 3].map(|()| vec![0; layout.device_bytes()]);
    nest.copy(&host, &mut results[0], &Solo)?;
    nest.copy(&host, &mut results[1], &Twice)?;
    nest.copy(&host, &mut results[2], &NoThreads)?;
    assert!(results[0] == results[1] && results[0] == results[2]);
    Ok(())
}

#[test]
fn views_are_classified_by_how_they_lie_over_sticks() -> Result<(), Error> {
    let layout = SpyreTensorLayout::contiguous(&[512, 240], IeeeFp16)?;
    let access =
        |size: &[usize], stride: &[usize], offset| layout.access(&View::new(size, stride, offset)?);

    assert_eq!(access(&[512, 240], &[240, 1], 0), Ok(Access::StickAligned));
    assert_eq!(access(&[240, 512], &[1, 240], 0), Ok(Access::StickAligned)); // transposed
    assert_eq!(access(&[10, 240], &[480, 1], 240), Ok(Access::StickAligned)); // x[1:21:2]
    assert_eq!(access(&[122_880], &[1], 0), Ok(Access::StickAligned)); // flat
    assert_eq!(access(&[3, 512, 240], &[0, 240, 1], 0), Ok(Access::StickAligned)); // expanded
    assert_eq!(access(&[512, 237], &[240, 1], 3), Ok(Access::Shifted)); // x[:, 3:]
    assert_eq!(access(&[512, 120], &[240, 2], 0), Ok(Access::Shifted)); // x[:, ::2]
    assert_eq!(access(&[960, 64], &[128, 1], 0), Ok(Access::General)); // rows of another width
    assert_eq!(access(&[0, 5], &[5, 1], 0), Ok(Access::StickAligned));
    assert!(matches!(access(&[20], &[1], 122_870), Err(Error::ViewOutside { .. })));
    Ok(())
}

#[test]
fn a_cast_arrangement_is_undone_by_copies() -> Result<(), Error> {
    let arranged = SpyreTensorLayout::contiguous(&[3, 128], IeeeFp32)?
        .with_element_arrangement(ElementArrangement::Dl16ToFp32)
        .for_host(&[3, 128], &[128, 1])?;
    for column in 0..128 {
        let pair = column / 64;
        let group = column / 8 % 8;
        let stick = column / 4 % 2;
        let lane = column % 4;
        let expected = ((2 * pair + stick) * 3 + 1) * 32 + 4 * group + lane; // row 1
        assert_eq!(arranged.device_element(128 + column), Some(expected), "column {column}");
    }

    let host: Vec<u8> = (0..384_u32).flat_map(u32::to_le_bytes).collect();
    let view = View::contiguous(&[3, 128])?;
    let host_end = Endpoint::host(&view, IeeeFp32);
    let device_end = Endpoint::device(&view, &arranged);
    let mut device = vec![0; arranged.device_bytes()];
    let mut back = vec![0; host.len()];
    DmaNest::derive(host_end, device_end)?.copy(&host, &mut device, &Solo)?;
    DmaNest::derive(device_end, host_end)?.copy(&device, &mut back, &Solo)?;
    assert_eq!(host, back);
    Ok(())
}

#[test]
fn arrangements_without_a_published_order_are_kept_but_not_copied() -> Result<(), Error> {
    let view = View::contiguous(&[3, 128])?;
    let plain = SpyreTensorLayout::contiguous(&[3, 128], IeeeFp32)?;
    let arranged = plain.clone().with_element_arrangement(ElementArrangement::Exx2);
    assert_ne!(plain, arranged);
    let ends = (Endpoint::host(&view, IeeeFp32), Endpoint::device(&view, &arranged));
    assert_eq!(
        text(DmaNest::derive(ends.0, ends.1)),
        "element arrangement EXX2 has no published order; copies know STANDARD and DL16_TO_FP32"
    );
    let odd = SpyreTensorLayout::contiguous(&[3, 96], IeeeFp32)?
        .with_element_arrangement(ElementArrangement::Dl16ToFp32);
    let narrow = View::contiguous(&[3, 96])?;
    let ends = (Endpoint::host(&narrow, IeeeFp32), Endpoint::device(&narrow, &odd));
    assert!(text(DmaNest::derive(ends.0, ends.1)).contains("pairs of 32-element sticks, not 3"));
    let single = SpyreTensorLayout::contiguous(&[4, 32], IeeeFp32)?
        .with_element_arrangement(ElementArrangement::Dl16ToFp32);
    assert_eq!(single.device_element(4), None);
    Ok(())
}

#[test]
fn restickify_needs_two_layouts_of_one_tensor() -> Result<(), Error> {
    let rows = SpyreTensorLayout::contiguous(&[10, 200], IeeeFp16)?;
    let other = SpyreTensorLayout::contiguous(&[10, 100], IeeeFp16)?;
    let unbound = explicit(&[4, 10, 64], &[64, 200, 1])?;
    let old = vec![0; rows.device_bytes()];
    let mut new = vec![9; rows.device_bytes()];

    assert_eq!(restickify(&rows, &old, &unbound, &mut new, &Solo), Err(Error::NoHostShape));
    assert!(matches!(
        restickify(&rows, &old, &other, &mut new, &Solo),
        Err(Error::SizeMismatch { .. })
    ));
    assert!(new.iter().all(|&byte| byte == 9));
    Ok(())
}
