"""Whether a promised precision is kept: streams whose truth is known, thresholds found on them.

`streams` draws the matches of a stream out of labelled crises, `ways` finds thresholds on labels
of some of them, rightly and wrongly, and `run` counts how often a promise was broken.
"""
