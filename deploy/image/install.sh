#!/bin/sh
# install.sh cpu|cuda WHEELS PREFIX: the wheel and, by their hashes, its dependencies, in a prefix.
# cpu leaves out PyTorch: the CPU kernel does not need it, and the image stays small.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
kind=$1 wheels=$2 prefix=$3

case $kind in
cpu) lock=requirements.lock ;;
cuda) lock=requirements-gpu.lock ;;
*) echo "install.sh: '$kind' is no target; use cpu or cuda" >&2; exit 2 ;;
esac
uv venv --quiet --python "${PYTHON:-python3}" "$prefix"
uv pip install --quiet --python "$prefix/bin/python" --no-build --require-hashes -r "$source/$lock"
uv pip install --quiet --python "$prefix/bin/python" --no-deps "$wheels"/newsift-*.whl
