//! One suite for every store: what the scheduler relies on, whoever keeps the outbox.
//!
//! A further store adds one line to `over!`. Beside the suite, random operations are fed to two stores at once and
//! every answer is compared (`differential`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod behaviours;
mod bounds;
mod charges;
#[cfg(any(feature = "redis", feature = "sqlite"))]
mod differential;
mod fixture;
mod lives;
mod notes;
mod questions;
#[cfg(feature = "redis")]
#[path = "../redis_server/mod.rs"]
mod redis_server;

use fixture::{Bounds, Kept};

/// Runs one behaviour over one store.
macro_rules! over {
    ($($store:ident: $make:expr;)+) => {
        $(mod $store {
            use super::*;

            fn make(bounds: Bounds) -> Kept {
                $make(bounds)
            }

            each_behaviour!();
        })+
    };
}

/// Every behaviour, as a test of the store whose `make` is in reach.
macro_rules! each_behaviour {
    () => {
        each_behaviour! { behaviours:
            an_operation_is_found_by_its_id_as_it_was_given,
            an_operation_that_has_to_wait_is_admitted_and_any_other_queued,
            the_same_id_and_content_is_the_same_operation,
            the_same_id_with_other_content_is_a_conflict,
            a_batch_may_name_an_id_twice,
            a_key_of_another_operation_is_refused_with_the_whole_batch,
            an_insert_that_nobody_waits_for_is_done,
            calls_of_one_turn_take_effect_in_their_order,
            every_attempt_gets_the_very_same_bytes,
            a_claim_whose_answer_was_lost_is_answered_again,
            a_claim_that_may_not_send_is_answered_with_nothing,
            an_email_goes_when_its_operation_ends_and_stays_in_quarantine,
        }
        each_behaviour! { lives:
            of_all_pairs_of_state_and_transition_only_the_listed_ones_happen,
            a_record_that_is_repeated_changes_nothing,
            a_whole_batch_that_is_repeated_changes_nothing,
            a_record_of_an_earlier_attempt_does_not_end_the_live_one,
            what_stands_beside_an_impossible_record_is_done,
            a_record_of_an_unknown_operation_is_ignored,
            an_attempt_number_is_never_used_twice,
            a_void_attempt_leaves_no_charge,
            a_lost_attempt_is_not_known_to_have_ended,
            status_and_provider_id_stay_until_there_are_newer_ones,
            what_a_person_said_stands_in_the_row_until_the_next_one_says_something,
        }
        each_behaviour! { charges:
            an_attempt_is_charged_after_recovery_as_it_was_before_however_it_ended,
        }
        each_behaviour! { questions:
            recovery_holds_what_is_not_over_in_order_of_key,
            recovery_is_whole_and_in_order_however_long_it_is,
            recovery_holds_attempts_from_the_very_instant_on,
            recovery_of_one_mailbox_holds_nothing_of_another,
            an_outline_and_what_it_leaves_apart_are_the_whole,
            every_query_finds_what_a_scan_finds_oldest_first,
            a_query_answers_with_its_limit_and_not_one_more,
            a_query_that_names_no_limit_finds_a_hundred,
            the_oldest_eligible_operation_is_past_those_that_cannot_go_yet,
            counts_follow_every_step,
        }
        each_behaviour! { notes:
            a_note_is_read_back_as_it_was_kept_whatever_it_says,
            the_last_word_about_a_key_counts_and_saying_it_twice_changes_nothing,
            a_mailbox_reads_its_own_notes_back_and_no_others,
            a_note_that_comes_with_an_operation_is_kept_with_it_unless_it_is_a_conflict,
            a_note_that_is_over_goes_and_one_that_is_not_stays,
            a_store_keeps_its_last_note_and_refuses_the_next,
            what_stops_the_sending_has_room_in_a_full_store,
            a_secret_stays_with_its_store,
        }
        each_behaviour! { bounds:
            a_store_takes_its_last_operation_and_refuses_the_next,
            a_batch_that_does_not_fit_leaves_nothing,
            a_full_store_still_knows_what_it_has,
            an_end_makes_room_for_another,
            what_has_ended_is_forgotten_oldest_first,
            the_last_key_outlives_what_is_forgotten,
        }
    };
    ($module:ident: $($name:ident,)+) => {
        $(#[test]
        fn $name() {
            fixture::run(make, crate::$module::$name);
        })+
    };
}

over! {
    memory: fixture::memory;
}

#[cfg(feature = "sqlite")]
over! {
    sqlite: fixture::sqlite;
}

#[cfg(feature = "redis")]
over! {
    redis: fixture::redis;
}
