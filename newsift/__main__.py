"""The command `newsift`. Until its modules are imported, Ctrl-C ends it without a traceback."""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from newsift.cli import main

if __name__ == "__main__":
    main()
