"""How good a model is: pairs ranked as in the paper, crises, and the automatic threshold."""
