-- {since_us}: how old a demand may be; {rows_max}: one more than may be
SELECT owner, key_id, algorithm, amount, interval_ns, interval_of, is_abuse, milli_per_second
FROM tidegate_demands WHERE reported_at >= {now} - {since_us} ORDER BY key_id, owner LIMIT {rows_max}
