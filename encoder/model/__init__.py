"""The reference: the Adaptive Siamese Transformer in torch, to be read from top to bottom.

`config` and `weights` are what a model directory holds; `star`, `siamese` and `entmax` what is made
of them. Training optimises this code; `encoder.backends` computes the same, faster.
"""
