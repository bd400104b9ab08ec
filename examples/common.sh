# What the scripts of these folders share: processes that end with the script, free ports, and four requests to try.
#
# Sourced, never run. Everything is written below a directory that is removed at the end.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
tidegate=${TIDEGATE:-tidegate}
work=$(mktemp -d)
processes=()
PATH=$PATH:/usr/sbin

finish() {
    local code=$?
    trap - EXIT INT TERM
    [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2> /dev/null || true
    wait
    rm -rf "$work"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

need() {
    command -v "$1" > /dev/null || { echo "$1 isn't installed, or isn't on the PATH${2:+: $2}" >&2; exit 2; }
}

# A port that nobody listens on, and that the system gives to no outgoing connection before it is used.
free_port() {
    local port
    while
        port=$((23000 + RANDOM % 9000))
        grep -qx "$port" "$work/ports" 2> /dev/null || (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null
    do :; done
    echo "$port" | tee -a "$work/ports"
}

# start NAME PORT COMMAND…: in the background, until somebody listens on the port.
start() {
    local name=$1 port=$2
    shift 2
    (cd "$work" && exec "$@") > "$work/$name.log" 2>&1 < /dev/null &
    local process=$!
    processes+=("$process")
    local deadline=$((SECONDS + 30))
    until (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do
        if ! kill -0 "$process" 2> /dev/null || [ "$SECONDS" -ge "$deadline" ]; then
            echo "$name doesn't listen on port $port; its log:" >&2
            cat "$work/$name.log" >&2
            exit 1
        fi
        sleep 0.05
    done
    echo "$name: 127.0.0.1:$port"
}

# A Redis, and a node that keeps its counts there and goes by the folder's rules. The node's ports: $http, $grpc,
# $resp, $admin.
start_redis_and_node() {
    need redis-server "your system's packages have it"
    need "$tidegate" "cargo install --locked --path crates/tidegate, or TIDEGATE=PATH"
    local redis
    redis=$(free_port) http=$(free_port) grpc=$(free_port) resp=$(free_port) admin=$(free_port)
    start redis "$redis" redis-server --port "$redis" --bind 127.0.0.1 --save ''
    # A new Redis has lost nothing: without this line, nodes wait for two seconds to see.
    "$tidegate" origin init "redis://127.0.0.1:$redis" > /dev/null
    start tidegate "$http" "$tidegate" serve --rules-file "$here/rules.yaml" --origin-url "redis://127.0.0.1:$redis" \
        --origin-timeout-ms "${ORIGIN_TIMEOUT_MS:-5}" --data-dir "$work/data" --listen-unix "$work/tidegate.sock" \
        --listen-http "127.0.0.1:$http" --listen-grpc "127.0.0.1:$grpc" --listen-resp "127.0.0.1:$resp" \
        --listen-admin "127.0.0.1:$admin"
    echo "dashboard: http://127.0.0.1:$admin/"
}

# A small service behind the proxy: it answers with a file. Its port: $service.
start_service() {
    need python3
    mkdir "$work/www"
    echo hello > "$work/www/index.html"
    service=$(free_port)
    start service "$service" python3 -m http.server --bind 127.0.0.1 --directory "$work/www" "$service"
}

# Four requests of ann, of whom three may pass, and one of bob.
try() {
    local url=$1
    echo "curl -H 'X-User: ann' $url"
    for request in 1 2 3 4; do
        curl -s -o /dev/null -w "request $request of ann: %{http_code}\n" -H 'X-User: ann' "$url"
    done
    curl -s -o /dev/null -w "request 1 of bob: %{http_code}\n" -H 'X-User: bob' "$url"
}

# Until Ctrl-C, unless the script was called with --once.
stay() {
    [ "${1:-}" = --once ] && return
    echo "running; Ctrl-C ends everything and removes $work"
    wait
}
