"""What any room of the encoder stands on: compiling, threads, files, arrays that stay as they are.

Nothing here knows texts or models.
"""
