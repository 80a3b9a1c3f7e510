"""What is trained: the encoders that are compared, what they start from, and how they are kept.

`start` counts words and sets the first vectors, `encoders` holds every kind; what `loop` has
trained leaves by `export` as a model that serves, or by `baseline` as one that is only compared.
"""
