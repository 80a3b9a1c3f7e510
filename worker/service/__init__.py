"""The process: Faust's app and its agent, the log, and all that is there before the first post.

A configuration comes in from `worker.config`; from here on `worker.stream` does the work.
"""
