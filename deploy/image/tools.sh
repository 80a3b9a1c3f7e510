#!/bin/sh
# tools.sh TOOLS: uv and what builds the wheel, from their lock, in a virtual environment.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
tools=$1

"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    --require-hashes -r "$source/requirements-build.lock"
