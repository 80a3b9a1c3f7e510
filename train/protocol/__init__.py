"""How good a model is: pairs ranked as in the paper, crises, and the automatic threshold.

`sets` holds what is judged, `peers` what scores beside the model; `judge` makes the figures,
`bootstrap` their intervals, and `report` the tables that `newsift evaluate` prints.
"""
