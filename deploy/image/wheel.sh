#!/bin/sh
# wheel.sh FOLDER: build the wheel into a folder, with the tools of tools.sh on the PATH.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)

uv build --quiet --wheel --no-build-isolation --python "$(command -v python)" --out-dir "$1" "$source"
