#!/usr/bin/env bash
# Programs that can't run in a test, because they want a cluster, a daemon, this machine's owner or another build,
# under the name by which they are called. What their lines name must exist, and a setting that they give must be one.
set -e

refuse() { echo "stand-in for $(basename "$0"): $*" >&2; exit 1; }

is_named() { grep -rqE "name: \"?$1\"?( |\$|,)" deploy/kubernetes || refuse "no manifest names $1"; }

# The file that follows each -f, and what a secret is made from.
files() {
    local previous='' argument
    for argument in "$@"; do
        case "$argument" in
            --from-file=*) [ -s "${argument##*=}" ] || refuse "no file ${argument##*=}" ;;
        esac
        [ "$previous" != -f ] || [ -s "$argument" ] || refuse "no file $argument"
        previous=$argument
    done
}

# What `kubectl set env` is given: names of settings, and values that a process accepts.
settings() {
    local argument
    for argument in "$@"; do
        case "$argument" in
            TIDEGATE_*-) grep -q "name: ${argument%-}," deploy/kubernetes/*.yaml || refuse "nobody sets ${argument%-}" ;;
            # A path in a pod, and the one that isn't a setting.
            TIDEGATE_TOKEN_FILE=*) ;;
            TIDEGATE_*=*) env -i PATH="$PATH" "$argument" tidegate serve --print-config > /dev/null || refuse "$argument" ;;
        esac
    done
}

resources() {
    local argument
    for argument in "$@"; do
        case "$argument" in
            deployment/* | statefulset/* | service/*) is_named "${argument#*/}" ;;
        esac
    done
}

case "$(basename "$0")" in
    kubectl)
        case "$1" in
            apply | create | rollout | set | get | logs | exec) ;;
            # What would be reached in the cluster, here: the rules are really pushed to it.
            port-forward) exec tidegate control --auth-tokens tokens.toml --data-dir forwarded ;;
            *) refuse "$1" ;;
        esac
        files "$@"
        settings "$@"
        resources "$@" ;;
    docker)
        case "$1" in
            build | run | push | logs) files "$@" ;;
            *) refuse "$1" ;;
        esac ;;
    systemctl | journalctl)
        for argument in "$@"; do
            case "$argument" in
                tidegate*) [ -s "deploy/systemd/${argument%.service}.service" ] || refuse "no unit $argument" ;;
            esac
        done ;;
    sudo)
        case "$1" in
            systemctl | journalctl) "$@" ;;
            systemd-sysusers | usermod) ;;
            # All but the last are what is installed, where it goes is the reader's.
            install)
                shift
                while [ $# -gt 1 ]; do
                    case "$1" in
                        -m | -o | -g) shift ;;
                        -d) break ;;
                        *) [ -s "$1" ] || refuse "no file $1" ;;
                    esac
                    shift
                done ;;
            *) refuse "$1" ;;
        esac ;;
    # Both are built already, by the workspace's own cargo.
    cargo)
        [ "$*" != "install --locked --path crates/tidegate" ] || exit 0
        [ "$1 $2 $3 $4 $5 $6" = "run -p tidegate-client --example service --" ] || refuse "$*"
        shift 6
        exec service "$@" ;;
    # The package is real; it was fetched by its lock file.
    npm)
        [ "$1 $2" = "install @unkey/ratelimit" ] || refuse "$*"
        ln -s "$UNKEY_FOR_NODE/node_modules" node_modules ;;
    *) refuse "who?" ;;
esac
