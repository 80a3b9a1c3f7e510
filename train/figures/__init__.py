"""The figures for a model: numbers by pure functions, drawing apart from them.

Each module makes the sheets of one figure from a `subject`, in the `style` of the house; `draw`
knows them by their names and writes SVG and PNG.
"""
