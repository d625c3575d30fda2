//! A launch of what was compiled for: three blocks, and words that correction wrote.

use spyre::artifact::samples::{self, Elements};
use spyre::artifact::{Dim, Operand};
use spyre::hal::{BlockKind, DeviceHandle};
use spyre::numerics::DType;
use spyre::runtime::{Error, ExecutionPlan, Operation, SpyreTensor, launch_kernel};

use crate::bed::{each_card, poisoned, product, put, read, trace, values, whole};

#[test]
fn a_launch_is_copy_correction_compute() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::matmul(Elements::exact(DType::Float32), Some([64, 80, 96]))?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        device.synchronize()?; // else the first launch waits for the copies on the device
        let a = whole(&[64, 80], 1);
        let b = whole(&[80, 96], 2);
        let tensors = [put(&stream, &a)?, put(&stream, &b)?, poisoned(&stream, &[64, 96])?];
        let before = stream.flex().copy_staged(&[0; 128], tensors_range(&tensors[2]))?.sequence;

        launch_kernel(&stream, &plan, &tensors)?;
        stream.synchronize()?;

        let blocks = trace(&stream, before);
        let expected = [
            (BlockKind::CopyToDevice, ""),
            (BlockKind::Launch, "matmul.correction"),
            (BlockKind::Launch, "matmul"),
        ];
        assert_eq!(blocks, expected.map(|(kind, label)| (kind, label.to_owned())));
        let expected = product(&values(&a), &values(&b), [64, 80, 96]);
        assert_eq!(read(&stream, &tensors[2])?, expected);
        Ok(())
    })
}

fn tensors_range(tensor: &SpyreTensor) -> spyre::hal::DeviceRange {
    spyre::hal::DeviceRange::start_of(tensor.device_handle(), 128)
}

#[test]
fn the_words_that_correction_wrote_are_in_device_memory() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::matmul(Elements::exact(DType::Float32), None)?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        let compute = plan.operations()[0].compute().expect("it multiplies").clone();
        let blank = compute.read_entry(&stream)?;
        assert!(
            blank.operand(Operand(0)).expect("there are four").is_err(),
            "no correction filled it"
        );

        for (m, k, n) in [(5, 70, 33), (64, 64, 64)] {
            let a = whole(&[m, k], 1);
            let b = whole(&[k, n], 2);
            let tensors = [put(&stream, &a)?, put(&stream, &b)?, poisoned(&stream, &[m, n])?];
            launch_kernel(&stream, &plan, &tensors)?;

            let entry = compute.read_entry(&stream)?;
            for (at, tensor) in tensors.iter().enumerate() {
                let words = entry.operand(Operand(at as u8)).expect("there are four")?;
                assert_eq!(DeviceHandle::from_words(words.handle.0), Some(tensor.device_handle()));
                assert_eq!(words.limit_bytes, tensor.size_bytes());
                assert_eq!(
                    words.layout(spyre::numerics::DataFormat::IeeeFp32)?.device_size(),
                    tensor.layout().device_size()
                );
            }
            let extents = [0, 1, 2].map(|dim| entry.extent(Dim(dim)));
            assert_eq!(extents, [m as u64, n as u64, k as u64]);
            let expected = product(&values(&a), &values(&b), [m, k, n]);
            assert_eq!(read(&stream, &tensors[2])?, expected);
        }
        Ok(())
    })
}

#[test]
fn one_program_serves_every_size_and_view_of_its_class() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::matmul(Elements::exact(DType::Float32), None)?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        for (seed, [m, k, n]) in
            [[1, 1, 1], [3, 129, 65], [100, 40, 31], [2, 300, 2], [7, 0, 5], [0, 4, 4]]
                .into_iter()
                .enumerate()
        {
            let a = whole(&[k, m], seed as u64);
            let b = whole(&[k + 2, n + 3], 50 + seed as u64);
            let c = poisoned(&stream, &[m, n])?;
            let a_view = put(&stream, &a)?.transpose(0, 1)?;
            let b_view = put(&stream, &b)?.narrow(0, 1, k)?.narrow(1, 2, n)?;
            launch_kernel(&stream, &plan, &[a_view, b_view, c.clone()])?;

            let a = values(&a);
            let b = values(&b);
            let a: Vec<f32> = (0..m * k).map(|at| a[at % k * m + at / k]).collect();
            let b: Vec<f32> = (0..k * n).map(|at| b[(at / n + 1) * (n + 3) + at % n + 2]).collect();
            assert_eq!(read(&stream, &c)?, product(&a, &b, [m, k, n]), "{m} {k} {n}");
        }
        Ok(())
    })
}

#[test]
fn handles_alone_are_enough_for_a_program_of_fixed_sizes() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::addition(Elements::exact(DType::Float32), Some([10, 40]))?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        let [a, b] = [1, 2].map(|seed| whole(&[10, 40], seed));
        let tensors = [put(&stream, &a)?, put(&stream, &b)?, poisoned(&stream, &[10, 40])?];

        let handles = tensors.each_ref().map(SpyreTensor::device_handle);
        stream.launch_handles(&plan.operations()[0], &handles)?;
        let sums: Vec<f32> = values(&a).iter().zip(values(&b)).map(|(a, b)| a + b).collect();
        assert_eq!(read(&stream, &tensors[2])?, sums);
        Ok(())
    })
}

#[test]
fn several_operations_run_in_order_with_memory_of_their_own_between_them() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::two_additions(Elements::exact(DType::Float32), None)?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        for shape in [[3, 50], [20, 200], [3, 50]] {
            let hosts = [1, 2, 3].map(|seed| whole(&shape, seed));
            let d = poisoned(&stream, &shape)?;
            let mut tensors = Vec::new();
            for host in &hosts {
                tensors.push(put(&stream, host)?);
            }
            tensors.push(d.clone());
            let before = launch_kernel(&stream, &plan, &tensors)?.sequence - 6;
            let [a, b, c] = hosts.map(|host| values(&host));
            let expected: Vec<f32> = (0..a.len()).map(|at| a[at] + b[at] + c[at]).collect();
            assert_eq!(read(&stream, &d)?, expected);
            let labels: Vec<String> =
                trace(&stream, before).into_iter().map(|(_, label)| label).collect();
            assert_eq!(
                labels[..6],
                ["", "first.correction", "first", "", "second.correction", "second"]
            );
        }
        Ok(())
    })
}

#[test]
fn an_operation_in_its_three_forms() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::addition(Elements::exact(DType::Float32), Some([4, 32]))?;
        let made = ExecutionPlan::from_compiler_output(output)?;
        let compute = made.operations()[0].compute().expect("it adds").clone();
        let correction = compute.correction().expect("it is corrected");
        let mut plan = ExecutionPlan::new();
        plan.add_operation(Operation::with_preprocessing(compute.clone(), correction.to_vec()));
        plan.add_operation(Operation::new(compute)); // the words of the one before still stand
        plan.load(&stream)?;
        let [a, b] = [1, 2].map(|seed| whole(&[4, 32], seed));
        let tensors = [put(&stream, &a)?, put(&stream, &b)?, poisoned(&stream, &[4, 32])?];

        let last = launch_kernel(&stream, &plan, &tensors)?.sequence;
        let sums: Vec<f32> = values(&a).iter().zip(values(&b)).map(|(a, b)| a + b).collect();
        assert_eq!(read(&stream, &tensors[2])?, sums);
        let labels: Vec<String> =
            trace(&stream, last - 4).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels[..4], ["", "add.correction", "add", "add"]);
        Ok(())
    })
}
