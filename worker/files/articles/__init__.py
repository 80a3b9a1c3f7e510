"""Articles: read from a file or a page, whoever asks; what looks like no article is told as such.

A page, of the web or saved, is taken apart in `extract`; what is read here becomes a seed.
"""
