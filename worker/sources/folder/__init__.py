"""A folder as a source of posts: its files are found, read once they are whole, and noted as sent.

What is in a file is read by `worker/files`; here is which file, and how far.
"""
