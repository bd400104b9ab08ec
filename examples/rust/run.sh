#!/usr/bin/env bash
# A Rust service that asks the node beside it over a Unix socket: crates/client/examples/service.rs. `run.sh --once` ends
# by itself; PORT=3000 chooses the service's port, SERVICE=PATH a program that is built already.
. "$(dirname "$0")/../common.sh"
if [ -z "${SERVICE:-}" ]; then
    need cargo "https://rustup.rs"
    (cd "$here/../.." && cargo build -q -p tidegate-client --example service)
    SERVICE=$here/../../target/debug/examples/service
fi
start_redis_and_node
port=${PORT:-$(free_port)}
start service "$port" "$SERVICE" "127.0.0.1:$port"
try "http://127.0.0.1:$port/"
stay "$@"
