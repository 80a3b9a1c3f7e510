"""The training itself: texts become `datasets`, and these `steps`, and steps move the model.

`trainer` runs them by a recipe, judges on `dev` and keeps checkpoints; `losses` says what is
minimised, `token_rows` which rows of the token tables a step moves.
"""
