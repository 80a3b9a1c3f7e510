"""The project's dependencies, one a line, out of a pyproject.toml on standard input.

The arguments name the dependencies to leave out.
"""

import re
import sys
import tomllib

wanted = tomllib.loads(sys.stdin.read())["project"]["dependencies"]
for line in wanted:
    if re.split(r"[^A-Za-z0-9._-]", line)[0] not in sys.argv[1:]:
        sys.stdout.write(f"{line}\n")
