//! A launch over tensors that are larger than what was compiled for.

use spyre::artifact::samples::{self, Elements};
use spyre::hal::BlockKind;
use spyre::numerics::DType;
use spyre::runtime::{Error, ExecutionPlan, SpyreStream, SpyreTensor, launch_kernel};

use crate::bed::{each_card, poisoned, product, put, read, trace, values, whole};

fn matmul(stream: &SpyreStream, tile: [u64; 3]) -> Result<ExecutionPlan, Error> {
    let output = samples::matmul(Elements::exact(DType::Float32), Some(tile))?;
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(stream)?;
    stream.device().synchronize()?;
    Ok(plan)
}

/// Multiplies, and checks the numbers; how many blocks it took.
fn check(
    stream: &SpyreStream,
    plan: &ExecutionPlan,
    [m, k, n]: [usize; 3],
) -> Result<usize, Error> {
    let a = whole(&[m, k], 1);
    let b = whole(&[k, n], 2);
    let tensors = [put(stream, &a)?, put(stream, &b)?, poisoned(stream, &[m, n])?];
    stream.synchronize()?;
    let before = trace_end(stream);
    let last = launch_kernel(stream, plan, &tensors)?.sequence;
    let expected = product(&values(&a), &values(&b), [m, k, n]);
    assert_eq!(read(stream, &tensors[2])?, expected, "{m} x {k} x {n}");
    Ok((last - before) as usize)
}

fn trace_end(stream: &SpyreStream) -> u64 {
    let records = stream.device().context().scheduler().flight_record();
    let of_stream = records.iter().filter(|record| record.stream == stream.flex().index());
    of_stream.map(|record| record.sequence).max().unwrap_or(0)
}

#[test]
fn four_tiles_along_m_are_twelve_blocks_in_order() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let plan = matmul(&stream, [64, 64, 64])?;
        let a = whole(&[256, 64], 1);
        let b = whole(&[64, 64], 2);
        let tensors = [put(&stream, &a)?, put(&stream, &b)?, poisoned(&stream, &[256, 64])?];

        let last = launch_kernel(&stream, &plan, &tensors)?.sequence;
        stream.synchronize()?;

        // With an engine to spare, another stream copies, and this one waits for it.
        let engines = device.context().hardware().description().engines;
        let first = if engines > 1 { BlockKind::WaitEvent } else { BlockKind::CopyToDevice };
        let round = [
            (first, String::new()),
            (BlockKind::Launch, "matmul.correction".to_owned()),
            (BlockKind::Launch, "matmul".to_owned()),
        ];
        assert_eq!(trace(&stream, last - 12), [(); 4].map(|()| round.clone()).concat());
        let expected = product(&values(&a), &values(&b), [256, 64, 64]);
        assert_eq!(read(&stream, &tensors[2])?, expected);
        Ok(())
    })
}

#[test]
fn any_dims_are_tiled_with_remainders_and_partial_sums() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let plan = matmul(&stream, [32, 48, 40])?;
        for (sizes, tiles) in [
            ([32, 48, 40], 1),
            ([64, 48, 40], 2),
            ([32, 96, 40], 2),
            ([32, 48, 80], 2),
            ([64, 96, 80], 8),
            ([70, 100, 90], 27), // remainders of 6, 4 and 10: edges inside sticks
            ([5, 7, 3], 1),      // less than a tile
            ([33, 0, 41], 4),    // no products at all: zeros
        ] {
            assert_eq!(check(&stream, &plan, sizes)?, 3 * tiles, "{sizes:?}");
        }
        Ok(())
    })
}

#[test]
fn views_are_tiled_as_they_are_seen() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let plan = matmul(&stream, [32, 32, 32])?;
        let [m, k, n] = [75, 64, 50];
        let a = whole(&[k, m], 1);
        let b = whole(&[k + 1, n + 5], 2);
        let c = whole(&[m + 4, n + 9], 3);
        let whole_c = put(&stream, &c)?;
        let a_view = put(&stream, &a)?.transpose(0, 1)?;
        let b_view = put(&stream, &b)?.narrow(0, 1, k)?.narrow(1, 4, n)?;
        let c_view = whole_c.narrow(0, 2, m)?.narrow(1, 7, n)?;
        launch_kernel(&stream, &plan, &[a_view, b_view, c_view])?;

        let a = values(&a);
        let b = values(&b);
        let mut expected = values(&c);
        let a: Vec<f32> = (0..m * k).map(|at| a[at % k * m + at / k]).collect();
        let b: Vec<f32> = (0..k * n).map(|at| b[(at / n + 1) * (n + 5) + at % n + 4]).collect();
        for (at, value) in product(&a, &b, [m, k, n]).into_iter().enumerate() {
            expected[(at / n + 2) * (n + 9) + at % n + 7] = value;
        }
        assert_eq!(read(&stream, &whole_c)?, expected); // and nothing around the view is touched
        Ok(())
    })
}

#[test]
fn steps_with_memory_between_them_are_tiled_one_after_the_other() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::two_additions(Elements::exact(DType::Float32), Some([16, 32]))?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        let hosts = [1, 2, 3].map(|seed| whole(&[40, 70], seed));
        let mut tensors: Vec<SpyreTensor> = Vec::new();
        for host in &hosts {
            tensors.push(put(&stream, host)?);
        }
        tensors.push(poisoned(&stream, &[40, 70])?);
        launch_kernel(&stream, &plan, &tensors)?;
        let [a, b, c] = hosts.map(|host| values(&host));
        let expected: Vec<f32> = (0..a.len()).map(|at| a[at] + b[at] + c[at]).collect();
        assert_eq!(read(&stream, &tensors[3])?, expected);
        Ok(())
    })
}

#[test]
fn a_thousand_tiles_are_queued_in_parts() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let plan = matmul(&stream, [4, 4, 4])?;
        assert_eq!(check(&stream, &plan, [40, 40, 48])?, 3 * 10 * 10 * 12);
        Ok(())
    })
}

#[test]
fn strict_and_tiled_launches_are_public_too() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let plan = matmul(&stream, [16, 16, 16])?;
        let operation = &plan.operations()[0];
        let a = whole(&[48, 16], 1);
        let b = whole(&[16, 16], 2);
        let tensors = [put(&stream, &a)?, put(&stream, &b)?, poisoned(&stream, &[48, 16])?];
        let error = stream.launch(operation, &tensors).expect_err("48 is not 16");
        assert_eq!(
            error.to_string(),
            "tensor \"a\": dimension 0 (m) is 48, not the 16 that the program was compiled for: \
             launch_tiled takes larger ones"
        );

        stream.launch_tiled(operation, &tensors)?;
        let expected = product(&values(&a), &values(&b), [48, 16, 16]);
        assert_eq!(read(&stream, &tensors[2])?, expected);
        let small = tensors.map(|tensor| tensor.narrow(0, 0, 16));
        let [a, b, c] = small;
        stream.launch(operation, &[a?, b?, c?])?;
        stream.synchronize()
    })
}
