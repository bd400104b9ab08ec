//! Every metric's name and meaning, once: what is written as `# HELP`, and what `docs/metrics.md` has to say.
//!
//! Names end in their unit, counters in `_total`. A metric that isn't here has no meaning, and the tests refuse it.

/// The meaning of a metric; nothing for one that isn't known.
pub(super) fn help(name: &str) -> &'static str {
    METRICS.iter().find(|(of, _)| *of == name).map_or("", |(_, help)| help)
}

/// By the kinds of node that have them, as the document lists them.
const METRICS: &[(&str, &str)] = &[
    // Every node.
    ("tidegate_node_info", "Always 1; the labels name this node, its region and its version."),
    (
        "tidegate_fleet_secret_info",
        "Always 1; the label names the source of the fleet's secret: file, store, data_dir, built_in or provisional.",
    ),
    ("tidegate_requests_admitted_total", "Requests that passed all of their limits."),
    ("tidegate_requests_denied_total", "Requests that a limit denied."),
    ("tidegate_requests_reported_total", "Requests that were charged without a decision (/v1/report)."),
    ("tidegate_decisions_total", "Decisions of limits, by rule, outcome and path."),
    ("tidegate_near_limit_decisions_total", "Admissions that left less than a fifth of a limit."),
    (
        "tidegate_decision_duration_seconds",
        "Time from reading a request to its decision. Requests that didn't ask the store are sampled.",
    ),
    ("tidegate_keys", "Keys in the counter table."),
    ("tidegate_keys_max", "Keys that the counter table has room for."),
    ("tidegate_keys_swept_total", "Keys that were dropped because they had expired."),
    ("tidegate_keys_evicted_total", "Live keys that were dropped from a full table to make room for others."),
    (
        "tidegate_keys_refused_admitted_total",
        "Limits of class paid that found the table full and admitted the request.",
    ),
    (
        "tidegate_keys_refused_shared_total",
        "Limits of class free that found the table full and used one common counter for each rule.",
    ),
    (
        "tidegate_keys_refused_denied_total",
        "Limits of class abuse that found the table full and denied the request.",
    ),
    (
        "tidegate_keys_refused_below_cap_total",
        "Limits whose key found no room although the table wasn't full, because the free room is reserved for other tenants.",
    ),
    ("tidegate_clock_steps_total", "Times that the wall clock was set while the node ran."),
    (
        "tidegate_malformed_values_total",
        "Malformed addresses, counted once for each rule that met one. The rule denied the request, or counted it together with other malformed values.",
    ),
    ("tidegate_rule_version", "Version of the rules in force."),
    ("tidegate_rule_reloads_total", "Times that changed rules files were put in force."),
    (
        "tidegate_rule_reload_failures_total",
        "Times that changed rules files were refused, and the rules in force stayed.",
    ),
    ("tidegate_overrides", "Overrides in force that were set over Unkey's API."),
    ("tidegate_connections_refused_total", "Connections closed because the node had no room for more."),
    ("tidegate_connections_too_slow_total", "Connections closed because the client was too slow."),
    (
        "tidegate_connections_unauthenticated_total",
        "Connections closed because no valid token came within 10 s.",
    ),
    (
        "tidegate_connections_evicted_total",
        "Unauthenticated connections closed to make room for a new connection.",
    ),
    ("tidegate_accept_failures_total", "Times that the operating system failed to accept a connection."),
    (
        "tidegate_requests_unjudged_total",
        "Requests of proxies (/auth and Envoy) that were denied because they couldn't be decided.",
    ),
    (
        "tidegate_tokens_refused_total",
        "Requests refused for their token: missing, unknown, revoked or without permission.",
    ),
    ("tidegate_http_requests_refused_total", "Requests over HTTP or gRPC that were answered with an error."),
    ("tidegate_idempotency_keys_forgotten_total", "Idempotency keys that were dropped before they expired."),
    (
        "tidegate_resp_commands_refused_total",
        "Commands of the Redis protocol that were answered with an error.",
    ),
    (
        "tidegate_unknown_namespace_requests_total",
        "Requests in a namespace that has no rules: they were allowed.",
    ),
    ("tidegate_tls_handshakes_failed_total", "TLS handshakes that failed."),
    // With a decision log.
    ("tidegate_decisions_logged_total", "Records that were written to the decision log."),
    ("tidegate_decisions_log_bytes_total", "Bytes that were written to the decision log."),
    (
        "tidegate_decisions_log_lost_total",
        "Records that couldn't be written because the disk was full or broken.",
    ),
    (
        "tidegate_decisions_log_denials_only_counted_total",
        "Denials that the log only counted, because too many records came at once.",
    ),
    ("tidegate_decisions_log_admissions_dropped_total", "Sampled admissions that the log had no room for."),
    (
        "tidegate_decisions_log_events_dropped_total",
        "Changes of the node's health that the log had no room for.",
    ),
    (
        "tidegate_decisions_log_segments_removed_total",
        "Oldest files of the log that were removed to keep its cap.",
    ),
    ("tidegate_otlp_requests_total", "Messages that the OpenTelemetry collector accepted."),
    (
        "tidegate_otlp_failures_total",
        "Messages that couldn't be sent, or that the OpenTelemetry collector refused.",
    ),
    (
        "tidegate_otlp_records_dropped_total",
        "Log records and spans that were dropped before the collector accepted them.",
    ),
    ("tidegate_decisions_json_lines_total", "Decisions and events that were written as lines of JSON."),
    (
        "tidegate_decisions_json_lines_lost_total",
        "Lines of JSON that couldn't be written, because the file or the reader couldn't keep up.",
    ),
    // With rules of a control plane.
    ("tidegate_rule_head_version", "Newest version of the rules that the control plane is known to have."),
    ("tidegate_rule_staleness_seconds", "Seconds since the rules in force were last known to be the newest."),
    (
        "tidegate_rule_staleness_grade",
        "0: rules are fresh, 1: stale for 30 s and more, 2: for 60 s and more.",
    ),
    ("tidegate_rule_stream_connected", "1 while the node follows a broker or control plane."),
    ("tidegate_rule_refused_version", "Version of the rules that this node refused as invalid; 0: none."),
    ("tidegate_rule_snapshot_loaded_bytes", "Bytes loaded so far of the rules file that is being loaded."),
    ("tidegate_rule_snapshot_bytes", "Size of the rules file that is being loaded."),
    ("tidegate_rule_stream_connects_total", "Times that this process opened a stream of rules."),
    ("tidegate_rule_changes_applied_total", "Changes of the rules that were put in force."),
    ("tidegate_rule_snapshots_loaded_total", "Rules files that were loaded whole."),
    ("tidegate_rule_changes_refused_total", "Changes of the rules that were refused."),
    ("tidegate_rule_stream_gaps_total", "Times that a change was missing in the stream."),
    // Nodes that share their counts with a region.
    ("tidegate_live_nodes", "Nodes of the region that are alive, this one included."),
    (
        "tidegate_keys_waiting_for_a_shard",
        "Keys that are to be published when their shard can be reached again.",
    ),
    (
        "tidegate_leased_keys",
        "Hot keys for which this node fetches leases: parts of the limit that it spends without asking the store.",
    ),
    ("tidegate_origin_operations_total", "Calls to a shard of the region's store that have ended."),
    (
        "tidegate_origin_operation_duration_seconds",
        "How long a shard took to answer the calls that it answered.",
    ),
    ("tidegate_origin_errors_total", "Calls to a shard that failed, by kind of error."),
    ("tidegate_breaker_open", "1 while the node doesn't call the shard, because its last calls failed."),
    ("tidegate_breaker_opened_total", "Times that the shard's breaker opened."),
    (
        "tidegate_shard_recovering",
        "1 while the shard recovers from a loss of data: what it grants is unverified until all nodes have published again.",
    ),
    (
        "tidegate_shard_unavailable",
        "1 while the shard doesn't answer this node's heartbeats, or refuses them: admissions that must ask follow their class.",
    ),
    ("tidegate_keys_to_republish", "Keys that this node has yet to publish again to a shard that lost data."),
    ("tidegate_origin_exchanges_total", "Calls that were made to the region's store."),
    ("tidegate_origin_failed_exchanges_total", "Calls to the region's store that failed."),
    ("tidegate_origin_syncs_total", "Keys that were published or read, several in a call."),
    ("tidegate_origin_failed_keys_total", "Keys whose sync failed; each is tried again."),
    ("tidegate_origin_asks_total", "Limits that had to ask the region before an admission, by the reason."),
    (
        "tidegate_unverified_limits_total",
        "Limits that had to ask, couldn't, and were decided by their class.",
    ),
    (
        "tidegate_overshoot_ratio",
        "How far a key was beyond its limit when a request asked about it, as a part of the limit.",
    ),
    // In a world.
    ("tidegate_world_keys", "Keys of this node whose counts are shared with the other regions."),
    ("tidegate_world_regions", "Regions that share limits, this one included; 0: not known yet."),
    ("tidegate_world_membership", "Version of the set of regions that this node uses."),
    ("tidegate_world_worker", "1 on the node that is its region's world worker."),
    ("tidegate_world_letters_total", "Cells that this node reported to its region's world worker."),
    (
        "tidegate_world_letters_refused_total",
        "Cells that found a full queue on their way to the world worker. The node reports them again later.",
    ),
    (
        "tidegate_world_keys_refused_total",
        "Times that this node had no room to track a key whose counts are shared with the other regions.",
    ),
    (
        "tidegate_world_credit_waits_total",
        "Requests of class abuse that were denied until the other regions know this region's count.",
    ),
    ("tidegate_world_rows_published_total", "Counts that were published to the world's store."),
    ("tidegate_world_publish_errors_total", "Publishes that failed. Their counts are published again."),
    ("tidegate_world_rows_refused_total", "Single counts that the database refused."),
    ("tidegate_world_rows_imported_total", "Counts of other regions that were read."),
    ("tidegate_world_import_errors_total", "Imports that failed."),
    ("tidegate_world_cells_imported_total", "Cells that the world worker first learned of from an import."),
    (
        "tidegate_world_implausible_rows_total",
        "Counts of other regions of more than 16 limits, which count as 16 limits.",
    ),
    ("tidegate_world_cells_dropped_total", "Cells that the worker dropped to make room for others."),
    ("tidegate_world_letters_dropped_total", "Reports of cells that the worker had no room for."),
    (
        "tidegate_world_rows_merged_total",
        "Rows that were copied from the log of publishes into the table of counts.",
    ),
    ("tidegate_world_rows_deleted_total", "Rows that were deleted because they had expired."),
    (
        "tidegate_world_rows_lost_total",
        "Rows of this region that the database had lost, and that were published again.",
    ),
    (
        "tidegate_slices_in_force",
        "Keys for which this region enforces a slice instead of an even part of the limit.",
    ),
    ("tidegate_quota_keys_tracked", "Keys whose demand is averaged, to divide their limits by it."),
    ("tidegate_quota_denied_limits_total", "Limits that denied because this region's part was used up."),
    ("tidegate_quota_keys_untracked_total", "Keys whose demand isn't tracked, for lack of room."),
    ("tidegate_quota_news_total", "Times that this node received changed parts of limits."),
    ("tidegate_quota_reports_failed_total", "Reports of demand that failed."),
    ("tidegate_reconciliations_total", "Times that this node divided limits between regions."),
    ("tidegate_reconciliations_failed_total", "Times that dividing limits between regions failed."),
    ("tidegate_slices_lowered_total", "Parts of limits that this node lowered."),
    ("tidegate_slices_raised_total", "Parts of limits that this node raised."),
    ("tidegate_sliced_keys_dropped_total", "Keys that went back to even parts."),
    ("tidegate_reconciler_term", "Term in which this node divides limits; 0: another node does."),
    ("tidegate_slices_of_all_regions", "Parts of limits that the leader has given out."),
    ("tidegate_slices_unacknowledged", "Parts of limits that a region hasn't confirmed yet."),
    (
        "tidegate_slices_keys_turned_away",
        "Keys that need slices and stay with even parts, because keys with more demand have all the slices.",
    ),
    // Of the world worker.
    (
        "tidegate_world_breaker_open",
        "1 while the worker doesn't call the world's store, because its last calls failed.",
    ),
    ("tidegate_world_breaker_opened_total", "Times that the breaker of the world's store opened."),
    (
        "tidegate_world_namesakes",
        "Other regions that use this region's name. Give every region its own name.",
    ),
    ("tidegate_world_rows_in_last_import", "Counts that the last import brought."),
    ("tidegate_world_cells_waiting", "Cells that wait to be published."),
    ("tidegate_world_cells_known", "Cells that the worker remembers."),
    ("tidegate_world_import_age_seconds", "How long ago the counts of the other regions were last read."),
    ("tidegate_world_publish_age_seconds", "How long ago something was last published."),
    // A control plane or broker.
    ("tidegate_control_rule_version", "Version of the rules that this process has."),
    (
        "tidegate_control_staleness_seconds",
        "Seconds since this version was last known to be the newest, or since the start.",
    ),
    (
        "tidegate_control_followers",
        "Nodes and brokers that follow this process, directly or through a broker.",
    ),
    ("tidegate_control_follows_store", "1 while the store of the rules answers."),
    ("tidegate_control_follower_connections_total", "Streams that nodes and brokers opened to this process."),
    ("tidegate_control_follower_snapshots_total", "Rules files that were sent whole."),
    (
        "tidegate_control_followers_resynchronised_total",
        "Times that a follower was too far behind for changes alone.",
    ),
    (
        "tidegate_control_follower_reports_dropped_total",
        "Reports of followers that were dropped for lack of room.",
    ),
];
