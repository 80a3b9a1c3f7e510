#!/bin/sh
# warm.sh PREFIX: compile the kernels into NEWSIFT_CACHE, and show that what was installed starts.
set -eu
PATH=$1/bin:$PATH

newsift --version
echo 'smoke over the harbour' | newsift embed --device "${DEVICE:-auto}" >/dev/null
python -c 'import sys, encoder; from worker.process.prepare import warm_up
warm_up(encoder.load(device=sys.argv[1]), why=True)' "${DEVICE:-auto}"
faust -A worker worker --help >/dev/null
echo "warm: $(find "$NEWSIFT_CACHE" -type f | wc -l) files in $NEWSIFT_CACHE"
