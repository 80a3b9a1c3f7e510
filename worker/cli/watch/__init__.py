"""`newsift watch`: each match goes on to the tools of a newsroom, by webhook or as a stream.

`courier` reads the matches in a group of its own and keeps them in the `lanes` of their events
until the `webhook` has acknowledged them; only then are they committed. `stream` shows the topic
to whoever listens, from where he left off.
"""
