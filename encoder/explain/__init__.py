"""The words that carry a vector or a score.

`words` is what users call; `gated_mean` is the closed form of a model without a star, `reference`
torch's own way back through one. What they say is a match's `why` (`worker.match.records`).
"""
