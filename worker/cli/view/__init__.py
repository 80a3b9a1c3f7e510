"""How commands show what they found: tables, matches, times, and words in colour.

What strangers wrote comes out without escapes: on a terminal, in JSON and in a spreadsheet's cells.
"""
