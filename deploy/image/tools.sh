#!/bin/sh
# tools.sh TOOLS: uv and what builds the wheel, each from its lock, in a virtual environment.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../..
tools=$1

"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    --require-hashes -r "$source/requirements-uv.lock"
echo hatchling | PATH=$tools/bin:$PATH "$here/lock.sh" - "$tools/build.lock"
"$tools/bin/uv" pip install --quiet --python "$tools/bin/python" --no-build --require-hashes \
    -r "$tools/build.lock"
