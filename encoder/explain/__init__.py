"""Explanations: the words that make a vector or a score.

`words` is the interface; `gated_mean` is the closed form of a model without a star, `reference`
uses torch's gradients.
"""
