//! What every world store must do, on all of them: in memory, SQLite, MariaDB and PostgreSQL, each a real server.
//!
//! A check is a function of a [`Fixture`]; the macro at the end makes a test of it for each store.

mod counts;
mod fixture;
mod fleet;
mod quotas;
mod random;
mod rules;
mod secret;

use fixture::Fixture;

macro_rules! conform {
    ($($area:ident::$check:ident,)+) => {
        mod memory { $(
            #[tokio::test]
            async fn $check() {
                crate::$area::$check(crate::Fixture::memory()).await;
            }
        )+ }
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                crate::$area::$check(crate::Fixture::sqlite()).await;
            }
        )+ }
        mod mariadb { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                crate::$area::$check(crate::Fixture::mariadb().await).await;
            }
        )+ }
        mod postgres { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                crate::$area::$check(crate::Fixture::postgres().await).await;
            }
        )+ }
    };
}

conform! {
    counts::counts_are_merged_by_max_and_only_growth_is_a_change,
    counts::owners_have_components_of_their_own,
    counts::pages_bring_every_row_once,
    counts::an_import_begins_where_the_last_one_ended,
    counts::what_is_published_along_with_an_import_is_read_back_with_it,
    counts::names_of_any_script_and_length_fail_no_batch,
    counts::a_row_that_cannot_be_kept_is_named_and_the_others_are_written,
    counts::what_is_merged_is_what_was_published,
    counts::what_is_not_merged_stays_however_old_it_is,
    counts::an_owner_finds_out_what_the_store_lost_of_its_rows,
    counts::a_reader_is_told_that_the_store_lost_its_log_or_went_back,
    counts::rows_are_deleted_in_small_batches_some_time_after_they_expired,
    counts::thirty_publishers_at_once_never_block_each_other,
    fleet::the_first_region_is_active_and_others_wait,
    fleet::a_region_that_comes_again_is_who_it_was,
    fleet::an_origin_whose_region_is_renamed_stays_the_owner_that_it_was,
    fleet::a_database_that_lost_who_joined_gives_everybody_the_id_that_it_had,
    fleet::a_store_that_went_back_goes_on_behind_the_membership_that_its_regions_know,
    fleet::policy_and_secret_are_the_first_regions,
    fleet::a_namesake_is_told_of_while_it_is_heard,
    fleet::one_leads_until_its_lease_ends,
    fleet::a_dozen_first_comers_at_once_are_all_members,
    fleet::tables_of_a_newer_version_are_refused,
    quotas::demands_of_every_kind_come_back_as_they_were,
    quotas::only_the_leader_grants_and_only_upon_its_last_survey,
    quotas::a_slice_never_goes_back_to_an_older_generation,
    quotas::who_leaves_holds_nothing,
    quotas::an_acknowledgement_confirms_its_owner,
    random::a_thousand_random_calls_do_what_they_do_in_memory,
    rules::an_entry_comes_back_as_it_was_written,
    rules::who_is_late_is_told_and_writes_nothing,
    rules::many_writers_at_once_leave_no_gap_and_no_double,
    rules::pages_bring_every_item_once_and_in_order,
    rules::history_is_found_by_what_it_is_about,
    rules::a_pruned_entry_has_its_summary_and_what_is_left,
    rules::entries_of_megabytes_are_kept_and_read_in_pages,
    secret::the_first_secret_stays_and_comes_back_where_it_was_lost,
    secret::of_many_secrets_stored_at_once_all_read_the_same,
}
