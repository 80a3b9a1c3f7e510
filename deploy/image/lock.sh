#!/bin/sh
# lock.sh REQUIREMENTS OUT: the part of requirements.lock that these requirements need, and no more.
# REQUIREMENTS is a pyproject.toml, or - for requirements on standard input.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
out=$2

# uv keeps the versions and hashes that its output file already has: here those of the whole lock.
cp "$source/requirements.lock" "$out"
uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
    --no-annotate --no-emit-index-url --no-strip-extras --output-file "$out" "$1"

names() {
    grep -oE '^[a-z][^ ]*==[^ ]*|sha256:[0-9a-f]+' "$1" | sed 's/\[[^]]*\]//' | sort -u
}
names "$source/requirements.lock" >"$out.whole"
names "$out" >"$out.part"
strange=$(comm -13 "$out.whole" "$out.part")
rm "$out.whole" "$out.part"
if [ -n "$strange" ]; then
    printf 'lock.sh: not in requirements.lock: %s; run make lock\n' "$strange" >&2
    exit 1
fi
