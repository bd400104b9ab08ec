//! One behaviour suite for every origin: in process, and on a real Redis.
//!
//! What a node may rely on is written down here once. A behaviour takes a region and knows nothing of what is
//! behind it; what only Redis can do wrong (poisoned values, keys without an expiry) follows after.

mod epochs;
mod expiry;
mod gcra;
mod grants;
mod heartbeats;
mod holds;
mod hot;
mod messages;
mod owners;
mod poison;
mod publish;
mod quotas;
mod random;
mod region;
mod same_as_the_store;
mod skew;
mod together;
mod world;

/// Runs each behaviour on each backend.
macro_rules! conformance {
    ($($group:ident: $($behaviour:ident),+;)+) => {
        mod memory {
            $($(
                #[tokio::test]
                async fn $behaviour() {
                    crate::$group::$behaviour(&crate::region::Region::memory()).await;
                }
            )+)+
        }
        mod redis {
            $($(
                #[tokio::test]
                async fn $behaviour() {
                    crate::$group::$behaviour(&crate::region::Region::redis().await).await;
                }
            )+)+
        }
    };
}

conformance! {
    publish:
        a_publish_is_absolute_and_a_retry_counts_once,
        two_nodes_add_up_and_every_sync_registers_its_sender,
        claims_heal_an_emptied_store,
        survivors_of_a_loss_grow_side_by_side,
        a_peek_reads_and_makes_nobody_an_owner,
        the_previous_cell_is_published_and_read_and_looking_back_creates_nothing,
        the_other_regions_count_against_the_limit_and_stay_apart,
        numbers_up_to_2_to_the_53_are_exact;
    owners:
        folding_changes_no_total_and_an_owner_that_is_back_counts_once,
        a_folded_owner_of_a_bucket_is_charged_only_for_what_is_new,
        a_shard_remembers_the_nodes_that_sent_it_a_pulse;
    quotas:
        a_worker_hears_what_each_node_said_last,
        nodes_hear_the_latest_news_once,
        a_store_that_forgot_who_reported_says_so,
        a_report_of_ten_thousand_keys_gets_through;
    hot:
        what_each_node_said_last_is_gathered,
        the_hot_set_is_heard_once_and_the_latest_wins;
    grants:
        asks_are_granted_in_order_while_they_fit,
        a_grant_counts_for_everybody_at_once,
        a_fading_cell_weighs_exactly_what_is_left_of_it,
        waiting_for_the_previous_cell_to_fade_is_exact,
        waiting_for_the_current_cell_to_fade_is_exact,
        an_ask_beyond_the_limit_is_told_no_time,
        a_draw_needs_room_and_takes_at_most_10_ms_of_refill;
    holds:
        only_granting_sees_a_hold,
        a_hold_expires_after_250_ms_of_the_stores_time,
        a_publish_that_names_it_confirms_a_hold,
        a_released_hold_gives_its_room_back,
        two_requests_that_hold_at_once_share_the_room,
        a_repeated_hold_replaces_itself;
    together:
        all_keys_grant_or_none_does,
        a_refusal_tells_each_key_how_long_it_alone_would_wait,
        a_request_of_a_hundred_limits_is_one_call;
    epochs:
        a_reset_starts_afresh_for_every_node,
        an_order_is_carried_out_once_however_many_nodes_ask,
        a_node_that_missed_a_reset_publishes_nothing_and_asks_in_the_new_epoch,
        a_node_that_knows_a_higher_epoch_raises_it;
    gcra:
        a_lost_reply_and_a_retry_charge_once,
        nodes_share_one_arrival_time,
        a_forgetful_store_takes_the_nodes_pair,
        late_news_is_paid_by_the_idle_time_between,
        a_burst_is_granted_and_no_more,
        the_wait_is_exact_to_the_nanosecond,
        a_draw_reaches_10_ms_beyond_the_burst,
        a_changed_rate_keeps_what_was_spent,
        huge_numbers_stop_at_the_end_of_time;
    skew:
        a_store_goes_by_the_time_of_its_nodes,
        a_cell_lives_as_long_as_its_node_says;
    heartbeats:
        nodes_join_leave_and_die,
        another_secret_is_refused,
        every_node_hears_of_a_reset,
        a_node_that_missed_more_resets_than_are_kept_is_told_so,
        a_reset_that_is_told_again_counts_once,
        a_shard_that_lost_its_data_says_so_until_its_nodes_have_confirmed,
        the_world_is_told_with_the_heartbeat;
    world:
        one_node_leads_until_its_lease_ends_or_it_gives_up,
        an_origin_keeps_its_id_and_a_forgetful_one_takes_the_id_it_had,
        a_cell_is_queued_once_and_the_oldest_are_dequeued_first,
        a_full_publish_queue_rejects,
        an_import_raises_the_total_and_registers_nobody,
        a_key_that_was_reset_elsewhere_is_reset_here,
        totals_are_read_with_what_is_published_of_them,
        abuse_stops_at_the_world_credit_and_goes_on_when_it_is_published,
        what_costs_more_than_the_credit_passes_when_nothing_is_unpublished;
}
