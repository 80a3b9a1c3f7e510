"""The reference model: the Adaptive Siamese Transformer in torch.

`config` and `weights` are the content of a model directory; `star`, `pooling_star`, `siamese` and
`entmax` compute with them. Training optimises this code; `encoder.backends` computes the same
faster.
"""
