"""An event for others to use: its matches and labels as files, its numbers, how they came about.

`asked` says which matches are meant, `tally` counts them, `files` writes them, `facts` gathers what
the topics know besides, and `methods` makes a paragraph of all of it.
"""
