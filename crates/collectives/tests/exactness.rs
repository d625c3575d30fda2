//! Every collective against an oracle, bit by bit: ranks are threads, or processes.
//!
//! `SPYRE_CCL_EXHAUSTIVE=1` takes every format, reduction and size; without it, a part.

mod support;

use std::env;
use std::path::PathBuf;

use spyre_collectives::{GroupOptions, ProcessGroup};

use support::{checks, on_ranks, options, spawn_ranks};

fn check(size: usize, change: impl Fn(GroupOptions) -> GroupOptions + Sync) {
    on_ranks(size, change, |group| checks::check_all(group));
}

#[test]
fn one_rank_is_a_group() {
    check(1, |options| options);
}

#[test]
fn two_ranks_get_the_oracles_bits() {
    check(2, |options| options);
}

#[test]
fn three_ranks_get_the_oracles_bits() {
    check(3, |options| options);
}

#[test]
fn four_ranks_get_the_oracles_bits() {
    check(4, |options| options);
}

#[test]
fn eight_ranks_get_the_oracles_bits() {
    check(8, |options| options);
}

#[test]
fn ranks_that_cannot_read_each_other_go_through_slots() {
    check(3, |options| GroupOptions { reads_peers: false, ..options });
}

/// A rank in a process of its own.
#[test]
fn process_of_a_rank() {
    let Ok(folder) = env::var("SPYRE_CCL_TEST_FOLDER") else { return };
    let number = |name: &str| env::var(name).expect("set").parse::<usize>().expect("a number");
    let rank = number("SPYRE_CCL_TEST_RANK");
    let size = number("SPYRE_CCL_TEST_SIZE");
    let options = options(&PathBuf::from(folder), "world", rank, size);
    let group = ProcessGroup::connect(options).expect("ranks meet");
    checks::check_part(&group);
    group.shutdown();
}

#[test]
fn processes_get_the_oracles_bits() {
    for size in [2, 3] {
        let folder = support::folder();
        for mut rank in spawn_ranks(&folder, size, &[]) {
            assert!(rank.wait().expect("a process").success());
        }
        let _ = std::fs::remove_dir_all(folder);
    }
}
