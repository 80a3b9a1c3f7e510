"""The stream processor: posts of a topic, matched with the articles of another.

A post enters by `stream.ingest` and leaves by `kafka.delivery`; `app` is the Faust app, made
at the first access.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.process import App

    app: App


def __getattr__(name: str) -> Any:
    """Makes the Faust app at the first access, for `faust -A worker`."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from worker.process import make_app

    app = globals()["app"] = make_app()
    return app
