#!/bin/bash
# Check Prometheus' configuration and rules, and run the rules' unit tests, with promtool.
# promtool: $PROMTOOL, else the PATH, else Debian's package, unpacked and not installed.
# Exit 77 where it cannot be had.
set -Eeuo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

unpacked() {
    cd "$scratch"
    apt-get download --quiet prometheus || { apt-get update --quiet && apt-get download --quiet prometheus; }
    dpkg -x prometheus_*.deb .
}
promtool=${PROMTOOL:-$(command -v promtool || true)}
if [ -z "$promtool" ]; then
    (unpacked) >"$scratch/log" 2>&1 || { tail -n 3 "$scratch/log" >&2; }
    promtool=$scratch/usr/bin/promtool
fi
if ! "$promtool" --version >/dev/null 2>&1; then
    echo "SKIPPED: no promtool here and Debian's package 'prometheus' cannot be fetched;" \
        'the alert rules were not tested' >&2
    exit 77
fi

"$promtool" --version 2>&1 | head -n 1
"$promtool" check config prometheus.yml
"$promtool" test rules tests/*.yml
