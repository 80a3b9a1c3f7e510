"""Matches out: one module a format, chosen by the ending of the file's name.

Each takes a file that is open and a layout, and gives a function that adds records; it completes
the file at its end, also on Ctrl-C, and leaves it on an error, as nobody gets to see it then.
"""
