//! Several streams, with work of their own.

use std::sync::Arc;
use std::thread;

use spyre::artifact::samples::{self, Elements};
use spyre::flex::{Event, Policy, Priority};
use spyre::hal::MemoryMode;
use spyre::numerics::DType;
use spyre::runtime::{Device, Error, ExecutionPlan, SpyreStream, launch_kernel};

use crate::bed::{card, each_card, open_with, poisoned, product, put, read, values, whole};

#[test]
fn two_streams_launch_two_plans() -> Result<(), Error> {
    each_card(|device| {
        let f32s = Elements::exact(DType::Float32);
        let stream_a = device.stream(Priority::Low)?;
        let stream_b = device.stream(Priority::Low)?;
        let plan_1 =
            ExecutionPlan::from_compiler_output(samples::matmul(f32s, Some([32, 32, 32]))?)?;
        let plan_2 = ExecutionPlan::from_compiler_output(samples::addition(f32s, None)?)?;
        plan_1.load(&stream_a)?;
        plan_2.load(&stream_b)?;
        let a = whole(&[96, 32], 1);
        let b = whole(&[32, 32], 2);
        let first = [put(&stream_a, &a)?, put(&stream_a, &b)?, poisoned(&stream_a, &[96, 32])?];
        let c = whole(&[50, 60], 3);
        let d = whole(&[50, 60], 4);
        let second = [put(&stream_b, &c)?, put(&stream_b, &d)?, poisoned(&stream_b, &[50, 60])?];

        launch_kernel(&stream_a, &plan_1, &first)?;
        launch_kernel(&stream_b, &plan_2, &second)?;
        stream_a.synchronize()?;
        stream_b.synchronize()?;

        assert_eq!(read(&stream_a, &first[2])?, product(&values(&a), &values(&b), [96, 32, 32]));
        let sums: Vec<f32> = values(&c).iter().zip(values(&d)).map(|(c, d)| c + d).collect();
        assert_eq!(read(&stream_b, &second[2])?, sums);
        Ok(())
    })
}

#[test]
fn an_event_orders_what_streams_do() -> Result<(), Error> {
    each_card(|device| {
        let f32s = Elements::exact(DType::Float32);
        let makes = device.stream(Priority::Low)?;
        let takes = device.stream(Priority::High)?;
        let plan = ExecutionPlan::from_compiler_output(samples::addition(f32s, None)?)?;
        plan.load(&makes)?;
        let a = whole(&[30, 40], 1);
        let b = whole(&[30, 40], 2);
        let [once, twice] = [(); 2].map(|()| poisoned(&makes, &[30, 40]));
        let a_there = put(&makes, &a)?;
        let b_there = put(&makes, &b)?;
        let once = once?;
        let twice = twice?;

        launch_kernel(&makes, &plan, &[a_there, b_there.clone(), once.clone()])?;
        let made = Event::new();
        makes.record(&made)?;
        takes.wait(&made)?;
        launch_kernel(&takes, &plan, &[once, b_there, twice.clone()])?;

        let expected: Vec<f32> =
            values(&a).iter().zip(values(&b)).map(|(a, b)| a + b + b).collect();
        assert_eq!(read(&takes, &twice)?, expected);
        Ok(())
    })
}

/// Launches that are under way before the first of their results is looked at.
const BATCH: usize = 25;

/// Launches of one thread, and the result of each.
fn launches(
    stream: &SpyreStream,
    plan: &ExecutionPlan,
    thread: u64,
    count: u64,
) -> Result<(), Error> {
    let shape = [3, 33 + thread as usize];
    let inputs: Vec<_> = (0..4).map(|seed| whole(&shape, 100 * thread + seed)).collect();
    let mut there = Vec::new();
    for input in &inputs {
        there.push(put(stream, input)?);
    }
    let mut results = Vec::new();
    for _ in 0..BATCH {
        results.push(poisoned(stream, &shape)?);
    }
    let operands = |launch: u64| [launch % 4, launch / 4 % 4].map(|at| at as usize);
    for first in (0..count).step_by(BATCH) {
        let batch = || (first..).zip(&results);
        for (launch, result) in batch() {
            let [left, right] = operands(launch);
            let tensors = [there[left].clone(), there[right].clone(), result.clone()];
            launch_kernel(stream, plan, &tensors)?;
        }
        for (launch, result) in batch() {
            let [left, right] = operands(launch).map(|at| values(&inputs[at]));
            let expected: Vec<f32> = left.iter().zip(right).map(|(a, b)| a + b).collect();
            assert_eq!(read(stream, result)?, expected, "thread {thread}, launch {launch}");
        }
    }
    Ok(())
}

/// Two threads on each of two streams, all with one plan.
fn crowd(device: &Device, launches_each: u64) -> Result<(), Error> {
    let plan = ExecutionPlan::from_compiler_output(samples::addition(
        Elements::exact(DType::Float32),
        None,
    )?)?;
    let streams = [device.stream(Priority::Low)?, device.stream(Priority::High)?];
    plan.load(&streams[0])?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|at| {
                let stream = streams[at % 2].clone();
                let plan = plan.clone();
                scope.spawn(move || launches(&stream, &plan, at as u64, launches_each))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

#[test]
fn a_hundred_thousand_launches_of_one_plan_are_all_exact() -> Result<(), Error> {
    let kinds = [Policy::RoundRobin, Policy::Priority, Policy::DrainOne];
    let mut total = 0;
    for policy in kinds {
        for engines in 1..=4 {
            let device = open_with(Arc::new(card(MemoryMode::Vf, engines)), policy);
            crowd(&device, 2100)?;
            total += 4 * 2100;
        }
    }
    assert!(total >= 100_000, "{total}");
    Ok(())
}
