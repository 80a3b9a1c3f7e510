"""The process: Faust's app with its agent, the command line, the log and the way out.

A configuration comes in from `worker.config`; `prepare` makes the parts of `worker.stream` of it,
and the agent in `app` takes each batch through them.
"""
