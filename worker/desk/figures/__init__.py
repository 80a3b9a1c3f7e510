"""Pictures of an event for a paper: SVG that stands alone, drawn by plain functions of numbers.

`svg` draws axes, bars and lines; `hours` and `scores` say what they stand for.
"""
