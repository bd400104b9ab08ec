#!/usr/bin/env bash
# Caddy before a small service, with a node and its Redis. `run.sh --once` ends by itself; PORT=8000 chooses Caddy's port.
. "$(dirname "$0")/../common.sh"
need caddy
start_redis_and_node
start_service
proxy=${PORT:-$(free_port)}
sed -e "s|127.0.0.1:8000|127.0.0.1:$proxy|; s|127.0.0.1:8080|127.0.0.1:$http|; s|127.0.0.1:9000|127.0.0.1:$service|" \
    "$here/Caddyfile" > "$work/Caddyfile"
start caddy "$proxy" env HOME="$work" caddy run --adapter caddyfile --config "$work/Caddyfile"
try "http://127.0.0.1:$proxy/"
stay "$@"
