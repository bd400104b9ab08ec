#!/usr/bin/env bash
# Plain HTTP: a small service in Python that asks the node before it answers. `run.sh --once` ends by itself; PORT=3000
# chooses the service's port.
. "$(dirname "$0")/../common.sh"
need python3
start_redis_and_node
port=${PORT:-$(free_port)}
start service "$port" python3 "$here/service.py" "$port" "http://127.0.0.1:$http"
try "http://127.0.0.1:$port/"
echo "curl http://127.0.0.1:$http/v1/check -d '{\"namespace\":\"api\",\"attributes\":{\"user\":\"carol\"}}'"
curl -s "http://127.0.0.1:$http/v1/check" -d '{"namespace":"api","attributes":{"user":"carol"}}'
stay "$@"
