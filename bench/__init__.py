"""What the README claims, as commands that print it: `newsift bench`.

`encoder` and `stream` each measure in a room of their own, rows interleaved by `measure` over the
real posts of `texts`; what was found leaves as a `part`, a table or JSON, through `cli`. It may
use every room, and no room uses it.
"""
