"""The words that carry a vector or a score.

`words` is what users call; `reference` reads torch's own attention, and the `kernel_` modules what
the kernel has computed. What is found goes to `worker.match.records` as a match's `why`.
"""
