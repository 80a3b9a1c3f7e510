#!/bin/bash
# Take the steps of the Dockerfile (CPU target) without a container engine: in an empty folder, as an
# unprivileged user, with an installation that cannot be written.
set -Eeuo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
nobody=65534
as=() started=()

finish() {
    [ ${#started[@]} = 0 ] || kill -KILL "${started[@]}" 2>/dev/null || true
    find "$work" -type d -exec chmod u+w {} +
    rm -rf "$work"
}
trap finish EXIT

# What the Dockerfile's first stage copies, as a copy: another user may not see the checkout.
mkdir "$work/source"
copied=$(awk '/^FROM/ { stage++ } stage == 1 && $1 == "COPY" { for (i = 2; i < NF; i++) print $i }' \
    "$source/deploy/Dockerfile")
for what in $copied deploy/Dockerfile; do
    (cd "$source" && cp -r --parents "$what" "$work/source")
done

mkdir "$work/home" "$work/cache"
if [ "$(id -u)" = 0 ]; then
    chown -R "$nobody:$nobody" "$work"
    as=(setpriv --reuid="$nobody" --regid="$nobody" --clear-groups)
fi
run() {
    (go "$@")
}
start() {
    go "$@" &
    started+=($!)
}
go() {
    cd "$work/home"
    exec "${as[@]}" env HOME="$work/home" UV_CACHE_DIR="$work/uv" NEWSIFT_CACHE="$work/cache" \
        PYTHON="$python" PATH="$work/tools/bin:$PATH" "$@"
}
for python in ${PYTHON:-} /usr/bin/python3.11 /usr/local/bin/python3.11 python3.11 python3; do
    run "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
        2>/dev/null && break
    python=
done
if [ -z "$python" ]; then
    echo 'SKIPPED: no Python 3.11 with venv that an unprivileged user may run'
    exit 77
fi

image=$work/source/deploy/image
run "$image/tools.sh" "$work/tools"
run "$image/wheel.sh" "$work/wheels"
run "$image/install.sh" cpu "$work/wheels" "$work/prefix"
find "$work/prefix" -type d -exec chmod a-w {} +
run env DEVICE=cpu "$image/warm.sh" "$work/prefix"

# The worker as the container starts it, on a broker in memory: well while it runs, not before.
start "$work/prefix/bin/newsift" broker --port 0 >"$work/broker"
until [ -s "$work/broker" ]; do sleep 0.1; done
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
health() { run env NEWSIFT_WEB__PORT="$port" "$work/prefix/bin/python" "$image/health.py"; }
if health 2>/dev/null; then
    echo 'health.py: a worker that does not run is called well' >&2
    exit 1
fi
start env NEWSIFT_KAFKA="$(head -n 1 "$work/broker")" NEWSIFT_CONFIG="$work/source/config.yaml" \
    NEWSIFT_WEB__HOST=0.0.0.0 NEWSIFT_WEB__PORT="$port" NEWSIFT_MODEL__DEVICE=cpu \
    "$work/prefix/bin/faust" -A worker worker >"$work/log" 2>&1
worker=${started[-1]}
began=$SECONDS
until health 2>/dev/null; do
    if ! kill -0 "$worker" 2>/dev/null || [ $((SECONDS - began)) -gt 120 ]; then
        tail -n 5 "$work/log" >&2
        echo 'health.py: the worker does not become well' >&2
        exit 1
    fi
    sleep 0.2
done
kill -TERM "$worker"
wait "$worker"
kill -TERM "${started[0]}"
wait "${started[0]}"
started=()
echo 'worker: well while it ran, ended by SIGTERM with 0'

run "$work/prefix/bin/python" -c 'import torch' 2>/dev/null && { echo 'torch is there' >&2; exit 1; }
du -sh "$work/prefix" | cut -f 1 | sed 's/^/prefix, CPU: /'
