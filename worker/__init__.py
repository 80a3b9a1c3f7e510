"""The stream processor: posts of a topic, matched with the articles of another.

A post enters by `stream.ingest` and leaves by `kafka.delivery`; `app` is the Faust app, made
at the first access.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.process.app import App

    app: App


def __getattr__(name: str) -> Any:
    """Makes the Faust app at the first access, for `faust -A worker`."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Before numpy loads BLAS: matching has two threads, and BLAS's own would wait beside them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from worker.process.app import make_app

    app = globals()["app"] = make_app()
    return app
