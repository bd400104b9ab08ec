#!/usr/bin/env bash
# Envoy before a small service, with a node and its Redis. `run.sh --once` ends by itself; PORT=10000 chooses Envoy's
# port, ENVOY=PATH its program.
. "$(dirname "$0")/../common.sh"
envoy=${ENVOY:-envoy}
need "$envoy" "its releases are at https://github.com/envoyproxy/envoy/releases; ENVOY=PATH names it"
start_redis_and_node
start_service
proxy=${PORT:-$(free_port)}
sed -e "s|port_value: 10000|port_value: $proxy|; s|port_value: 3000|port_value: $service|; s|port_value: 8081|port_value: $grpc|" \
    "$here/envoy.yaml" > "$work/envoy.yaml"
start envoy "$proxy" "$envoy" -c "$work/envoy.yaml" --disable-hot-restart --concurrency 1 --log-level warning
try "http://127.0.0.1:$proxy/"
stay "$@"
