"""What researchers have on disk, one module a format: from the bytes of a file to messages.

`recognise` tells the format by the first bytes; a module then makes posts of the rows, as the
platform sent them where it can, else plain ones.
"""
