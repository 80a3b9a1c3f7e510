"""`newsift worker`: the command `faust`, which a signal ends in order from its first moment.

While it is imported, which may take seconds, Ctrl-C would print a traceback, and SIGTERM end it
with the code of a failure.
"""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

if __name__ == "__main__":
    from faust.cli.faust import cli

    cli(prog_name="faust")
