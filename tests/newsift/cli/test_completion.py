"""What a shell that completes is told without waiting."""

import os
import subprocess
import sys

from newsift.cli import COMMANDS


def test_the_names_of_commands_come_without_their_modules() -> None:
    requests = {"_NEWSIFT_COMPLETE": "bash_complete", "COMP_WORDS": "newsift ", "COMP_CWORD": "1"}
    code = (
        "import sys, atexit, newsift.cli;"
        "heavy = ('kafka', 'numpy', 'msgspec', 'trafilatura', 'newsift.cli.seeds');"
        "atexit.register(lambda: print([m for m in heavy if m in sys.modules]));"
        "newsift.cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | requests, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split()[-1] == "[]"
    assert done.stdout.split()[:-1] == [f"plain,{name}" for name in COMMANDS]
