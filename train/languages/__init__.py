"""The text that teaches and judges the multilingual model, out of public repositories.

`sources.yaml` names the files, `clones` fetches them, `texts` reads and cleans what they hold, and
`gather` writes a folder laid out as for training.
"""
