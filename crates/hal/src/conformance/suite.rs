/// Runs every case of [`CASES`](crate::conformance::CASES) on a hardware, each as a test of its own
/// in a module of that name. The second argument opens one: it is a function that gives a
/// [`Subject`](crate::conformance::Subject), or an [`Arc`](std::sync::Arc) of the hardware.
#[macro_export]
macro_rules! conformance {
    ($subject:ident, $open:expr) => {
        $crate::conformance! { @cases $subject, $open,
            a_region_reads_as_zero
            a_region_is_as_long_as_asked
            regions_do_not_overlap
            regions_start_at_multiples_of_128_bytes
            regions_share_no_bytes
            too_large_a_region_is_refused_without_effect
            regions_run_out_without_effect
            a_refused_region_leaves_the_others_their_bytes
            a_region_that_is_acquired_again_reads_as_zero
            bytes_come_back_as_they_were
            one_byte_is_copied_alone
            a_copy_to_the_device_leaves_its_neighbours
            a_copy_from_the_device_reads_its_range_only
            a_handle_inside_a_region_counts_from_there
            a_copy_on_the_device_leaves_its_neighbours
            a_copy_inside_a_region_moves_its_bytes
            an_empty_copy_changes_nothing
            every_byte_of_a_host_target_is_written
            a_nest_puts_each_element_where_the_layout_says
            a_nest_tiles_on_the_way_to_the_device
            a_nest_untiles_on_the_way_from_the_device
            a_nest_permutes_on_the_device
            a_nest_converts_on_the_way_to_the_device
            a_nest_converts_on_the_way_from_the_device
            a_nest_converts_on_the_device
            a_nest_of_a_slice_leaves_the_rest
            an_empty_nest_moves_nothing
            random_shapes_go_there_and_back
            a_fill_repeats_its_pattern
            a_ragged_fill_leaves_its_neighbours
            a_fill_of_zeros_clears
            an_empty_fill_changes_nothing
            a_copy_to_a_peer_arrives
            a_copy_to_a_peer_leaves_its_neighbours
            bytes_go_to_a_peer_and_back
            what_a_card_accepts_is_there_for_its_next_block
            two_cards_can_copy_to_each_other
            a_chain_of_copies_carries_bytes_along
            a_chain_goes_on_across_engines
            the_last_of_many_writes_stays
            engines_write_side_by_side
            thousands_of_random_blocks_do_as_a_model
            random_blocks_on_all_engines_do_as_models
            every_kind_of_block_is_reported_once
            many_blocks_are_reported_once_each
            a_report_names_its_engine
            another_runtime_can_take_over
            a_source_is_free_when_its_copy_is_reported
            a_target_is_free_when_its_copy_is_reported
            a_peer_is_let_go_when_its_copy_is_reported
            a_block_that_a_lost_device_refuses_is_let_go
            a_start_does_not_wait_for_a_hang
            a_description_stays_the_same
            an_abort_with_nothing_running_does_nothing
            an_abort_ends_a_hang
            an_engine_goes_on_after_an_abort
            a_second_abort_reports_nothing
            an_abort_that_comes_late_spares_the_next_block
            a_hang_on_one_engine_leaves_the_others_running
            an_abort_ends_its_own_engine_only
            a_lost_device_fails_every_block
            a_lost_device_ends_what_hangs
            an_abort_on_a_lost_device_does_nothing
            a_reset_brings_a_lost_device_back
            a_lost_peer_fails_the_copy_only
            a_reset_ends_what_hangs
            an_engine_goes_on_after_a_reset_of_a_hang
            a_reset_releases_all_regions
            memory_reads_as_zero_after_a_reset
            a_reset_of_an_idle_device_leaves_it_usable
            a_reset_reports_what_was_just_started
            a_reset_frees_the_buffers_of_what_was_just_started
            what_was_started_before_a_reset_writes_nothing_after_it
            zeros_are_no_program
            one_byte_again_and_again_is_no_program
            random_bytes_are_no_program
            a_program_cut_off_by_its_region_is_none
            bad_programs_leave_memory_alone
            a_bad_program_is_refused_on_every_engine
            a_good_program_ends_well
            an_engine_goes_on_after_a_fault
            programs_are_written_by_copies_to_the_device
            nothing_else_writes_where_programs_are
            what_is_no_longer_protected_is_plain_memory
            a_region_that_is_acquired_again_holds_no_programs
            a_reset_ends_all_protection
            a_launch_from_plain_memory_is_refused
            a_launch_runs_what_was_copied_last
        }
    };
    (@cases $subject:ident, $open:expr, $($case:ident)+) => {
        mod $subject {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::conformance::test(stringify!($case), $open);
                }
            )+

            #[test]
            fn every_case_is_run() {
                $crate::conformance::assert_complete(&[$(stringify!($case)),+]);
            }
        }
    };
}
