#!/bin/sh
# install.sh cpu|cuda WHEELS PREFIX: the wheel and, by their hashes, its dependencies, in a prefix.
# cpu leaves out PyTorch and entmax: the CPU kernel needs neither, and the image stays small.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kind=$1 wheels=$2 prefix=$3
lock=$wheels/$kind.lock

case $kind in
cpu) python "$here/requirements.py" torch entmax <"$here/../../pyproject.toml" |
    "$here/lock.sh" - "$lock" ;;
cuda) "$here/lock.sh" "$here/../../pyproject.toml" "$lock" ;;
*) echo "install.sh: '$kind' is no target; use cpu or cuda" >&2; exit 2 ;;
esac
uv venv --quiet --python "${PYTHON:-python3}" "$prefix"
uv pip install --quiet --python "$prefix/bin/python" --no-build --require-hashes -r "$lock"
uv pip install --quiet --python "$prefix/bin/python" --no-deps "$wheels"/newsift-*.whl
