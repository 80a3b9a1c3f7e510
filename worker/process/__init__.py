"""The process: Faust's app with its agent, the command line and the exit.

`prepare` builds the parts of `worker.stream` from the configuration; the agent in `app` takes each
batch through them.
"""

from worker.process.app import App, make_app

__all__ = ["App", "make_app"]
