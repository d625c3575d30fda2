use super::{
    Driver, Ending, Subject, abort, completion, copies, device_loss, fills, nests, order, peers,
    programs, protection, regions, reset,
};

/// One thing that a hardware must do.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Sentence that must be true.
    pub name: &'static str,
    /// The items of the contract that say it, by their numbers.
    pub contract: &'static [u8],
    /// Requirements that the hardware must meet for the case to say anything.
    pub needs: Needs,
    pub(super) run: fn(&Driver<'_>),
}

/// Requirements of a case on a hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// True if it must keep what is written to it.
    pub data: bool,
    /// Number of engines that it must have.
    pub engines: u16,
    /// True if it must be prompt.
    pub prompt: bool,
    /// True if it must guard programs.
    pub guard: bool,
    /// Programs that end in these ways.
    pub programs: &'static [Ending],
}

impl Needs {
    const NOTHING: Self =
        Self { data: false, engines: 1, prompt: false, guard: false, programs: &[] };
    const DATA: Self = Self { data: true, ..Self::NOTHING };
    const GUARD: Self = Self { guard: true, ..Self::DATA };

    const fn engines(self, engines: u16) -> Self {
        Self { engines, ..self }
    }

    const fn prompt(self) -> Self {
        Self { prompt: true, ..self }
    }

    const fn programs(self, programs: &'static [Ending]) -> Self {
        Self { programs, ..self }
    }

    /// Requirement that the subject does not meet, in words.
    pub(super) fn lack(&self, subject: &Subject) -> Option<String> {
        let description = subject.hardware().description();
        let unknown = self.programs.iter().find(|ending| !subject.ends(**ending));
        match unknown {
            _ if self.data && !subject.keeps_data() => Some("it keeps no data".to_owned()),
            _ if self.engines > description.engines => {
                Some(format!("it has {} of the {} engines", description.engines, self.engines))
            }
            _ if self.prompt && !description.is_prompt => Some("it is not prompt".to_owned()),
            _ if self.guard && !subject.guards_programs() => {
                Some("it does not guard programs".to_owned())
            }
            Some(ending) => Some(format!("it knows no program that ends like this: {ending:?}")),
            None => None,
        }
    }
}

/// A row of the table: the function is the name.
macro_rules! case {
    ($group:ident::$name:ident, $contract:expr, $needs:expr) => {
        Case { name: stringify!($name), contract: &$contract, needs: $needs, run: $group::$name }
    };
}

/// All of them.
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    case!(regions::a_region_reads_as_zero, [11], Needs::DATA),
    case!(regions::a_region_is_as_long_as_asked, [11], Needs::NOTHING),
    case!(regions::regions_do_not_overlap, [11], Needs::NOTHING),
    case!(regions::regions_start_at_multiples_of_128_bytes, [11], Needs::NOTHING),
    case!(regions::regions_share_no_bytes, [4, 11], Needs::DATA),
    case!(regions::too_large_a_region_is_refused_without_effect, [11], Needs::NOTHING),
    case!(regions::regions_run_out_without_effect, [11], Needs::NOTHING),
    case!(regions::a_refused_region_leaves_the_others_their_bytes, [4, 11], Needs::DATA),
    case!(regions::a_region_that_is_acquired_again_reads_as_zero, [11], Needs::DATA),
    case!(copies::bytes_come_back_as_they_were, [1, 5], Needs::DATA),
    case!(copies::one_byte_is_copied_alone, [4, 5], Needs::DATA),
    case!(copies::a_copy_to_the_device_leaves_its_neighbours, [4, 5], Needs::DATA),
    case!(copies::a_copy_from_the_device_reads_its_range_only, [4, 5], Needs::DATA),
    case!(copies::a_handle_inside_a_region_counts_from_there, [4, 5], Needs::DATA),
    case!(copies::a_copy_on_the_device_leaves_its_neighbours, [4, 5], Needs::DATA),
    case!(copies::a_copy_inside_a_region_moves_its_bytes, [4, 5], Needs::DATA),
    case!(copies::an_empty_copy_changes_nothing, [4, 5], Needs::DATA),
    case!(copies::every_byte_of_a_host_target_is_written, [5], Needs::DATA),
    case!(nests::a_nest_puts_each_element_where_the_layout_says, [5], Needs::DATA),
    case!(nests::a_nest_tiles_on_the_way_to_the_device, [4, 5], Needs::DATA),
    case!(nests::a_nest_untiles_on_the_way_from_the_device, [4, 5], Needs::DATA),
    case!(nests::a_nest_permutes_on_the_device, [4, 5], Needs::DATA),
    case!(nests::a_nest_converts_on_the_way_to_the_device, [4, 5], Needs::DATA),
    case!(nests::a_nest_converts_on_the_way_from_the_device, [4, 5], Needs::DATA),
    case!(nests::a_nest_converts_on_the_device, [4, 5], Needs::DATA),
    case!(nests::a_nest_of_a_slice_leaves_the_rest, [4, 5], Needs::DATA),
    case!(nests::an_empty_nest_moves_nothing, [4, 5], Needs::DATA),
    case!(nests::random_shapes_go_there_and_back, [1, 5], Needs::DATA),
    case!(fills::a_fill_repeats_its_pattern, [4], Needs::DATA),
    case!(fills::a_ragged_fill_leaves_its_neighbours, [4], Needs::DATA),
    case!(fills::a_fill_of_zeros_clears, [4], Needs::DATA),
    case!(fills::an_empty_fill_changes_nothing, [4], Needs::DATA),
    case!(peers::a_copy_to_a_peer_arrives, [5], Needs::DATA),
    case!(peers::a_copy_to_a_peer_leaves_its_neighbours, [4, 5], Needs::DATA),
    case!(peers::bytes_go_to_a_peer_and_back, [1, 5], Needs::DATA),
    case!(peers::what_a_card_accepts_is_there_for_its_next_block, [1, 4], Needs::DATA),
    case!(peers::two_cards_can_copy_to_each_other, [2], Needs::NOTHING),
    case!(order::a_chain_of_copies_carries_bytes_along, [1], Needs::DATA),
    case!(order::a_chain_goes_on_across_engines, [1], Needs::DATA.engines(2)),
    case!(order::the_last_of_many_writes_stays, [1], Needs::DATA),
    case!(order::engines_write_side_by_side, [1, 4, 6], Needs::DATA.engines(2)),
    case!(order::thousands_of_random_blocks_do_as_a_model, [1, 2, 4, 5], Needs::DATA),
    case!(order::random_blocks_on_all_engines_do_as_models, [1, 2, 4, 5, 6], Needs::DATA.engines(2)),
    case!(completion::every_kind_of_block_is_reported_once, [2], Needs::NOTHING),
    case!(completion::many_blocks_are_reported_once_each, [2], Needs::NOTHING),
    case!(completion::a_report_names_its_engine, [2], Needs::NOTHING.engines(2)),
    case!(completion::another_runtime_can_take_over, [2], Needs::NOTHING),
    case!(completion::a_source_is_free_when_its_copy_is_reported, [3], Needs::NOTHING),
    case!(completion::a_target_is_free_when_its_copy_is_reported, [3], Needs::NOTHING),
    case!(completion::a_peer_is_let_go_when_its_copy_is_reported, [3], Needs::NOTHING),
    case!(completion::a_block_that_a_lost_device_refuses_is_let_go, [3, 9], Needs::NOTHING.programs(&[Ending::Lose])),
    case!(completion::a_start_does_not_wait_for_a_hang, [7], Needs::NOTHING.prompt().programs(&[Ending::Hang])),
    case!(completion::a_description_stays_the_same, [7, 10], Needs::NOTHING),
    case!(abort::an_abort_with_nothing_running_does_nothing, [8], Needs::NOTHING),
    case!(abort::an_abort_ends_a_hang, [2, 8], Needs::NOTHING.programs(&[Ending::Hang])),
    case!(abort::an_engine_goes_on_after_an_abort, [8], Needs::NOTHING.programs(&[Ending::Hang])),
    case!(abort::a_second_abort_reports_nothing, [2, 8], Needs::NOTHING.programs(&[Ending::Hang])),
    case!(abort::an_abort_that_comes_late_spares_the_next_block, [2, 8], Needs::NOTHING.programs(&[Ending::Hang])),
    case!(abort::a_hang_on_one_engine_leaves_the_others_running, [6], Needs::NOTHING.engines(2).programs(&[Ending::Hang])),
    case!(abort::an_abort_ends_its_own_engine_only, [6, 8], Needs::NOTHING.engines(2).programs(&[Ending::Hang])),
    case!(device_loss::a_lost_device_fails_every_block, [2, 9], Needs::NOTHING.programs(&[Ending::Lose])),
    case!(device_loss::a_lost_device_ends_what_hangs, [2, 9], Needs::NOTHING.engines(2).programs(&[Ending::Hang, Ending::Lose])),
    case!(device_loss::an_abort_on_a_lost_device_does_nothing, [8, 9], Needs::NOTHING.programs(&[Ending::Lose])),
    case!(device_loss::a_reset_brings_a_lost_device_back, [9, 10], Needs::NOTHING.programs(&[Ending::Lose])),
    case!(device_loss::a_lost_peer_fails_the_copy_only, [9], Needs::NOTHING.programs(&[Ending::Lose])),
    case!(reset::a_reset_ends_what_hangs, [2, 10], Needs::NOTHING.programs(&[Ending::Hang])),
    case!(reset::an_engine_goes_on_after_a_reset_of_a_hang, [10], Needs::NOTHING.programs(&[Ending::Hang])),
    case!(reset::a_reset_releases_all_regions, [10], Needs::NOTHING),
    case!(reset::memory_reads_as_zero_after_a_reset, [10, 11], Needs::DATA),
    case!(reset::a_reset_of_an_idle_device_leaves_it_usable, [10], Needs::NOTHING),
    case!(reset::a_reset_reports_what_was_just_started, [2, 10], Needs::NOTHING),
    case!(reset::a_reset_frees_the_buffers_of_what_was_just_started, [2, 3, 10], Needs::NOTHING),
    case!(reset::what_was_started_before_a_reset_writes_nothing_after_it, [10], Needs::DATA.prompt()),
    case!(programs::zeros_are_no_program, [12], Needs::DATA),
    case!(programs::one_byte_again_and_again_is_no_program, [12], Needs::DATA),
    case!(programs::random_bytes_are_no_program, [12], Needs::DATA),
    case!(programs::a_program_cut_off_by_its_region_is_none, [12], Needs::DATA),
    case!(programs::bad_programs_leave_memory_alone, [4, 12], Needs::DATA),
    case!(programs::a_bad_program_is_refused_on_every_engine, [12], Needs::DATA),
    case!(programs::a_good_program_ends_well, [2], Needs::NOTHING.programs(&[Ending::Well])),
    case!(programs::an_engine_goes_on_after_a_fault, [2, 12], Needs::NOTHING.programs(&[Ending::Fault, Ending::Well])),
    case!(protection::programs_are_written_by_copies_to_the_device, [13], Needs::GUARD),
    case!(protection::nothing_else_writes_where_programs_are, [4, 13], Needs::GUARD),
    case!(protection::what_is_no_longer_protected_is_plain_memory, [13], Needs::GUARD),
    case!(protection::a_region_that_is_acquired_again_holds_no_programs, [11, 13], Needs::GUARD),
    case!(protection::a_reset_ends_all_protection, [10, 13], Needs::GUARD),
    case!(protection::a_launch_from_plain_memory_is_refused, [13], Needs::GUARD.programs(&[Ending::Well])),
    case!(protection::a_launch_runs_what_was_copied_last, [1, 13], Needs::GUARD.programs(&[Ending::Well, Ending::Fault])),
];
