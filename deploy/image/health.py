"""Exit 0 if the worker of this container says that it is well."""

import os
import sys
import urllib.error
import urllib.request

PORT = os.environ.get("NEWSIFT_WEB__PORT", "6066")

try:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=3) as answer:
        sys.exit(answer.status != 200)
except (OSError, urllib.error.URLError) as error:
    sys.exit(f"healthz: {error}")
