"""Runs Faust's command for `newsift worker`.

Importing Faust may take seconds. A signal meanwhile ends the process with the exit code that it
has for a worker that runs, and without a traceback.
"""

import os
import signal

for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda *_, code=code: os._exit(code))

if __name__ == "__main__":
    from faust.cli.faust import cli

    cli(prog_name="faust")
