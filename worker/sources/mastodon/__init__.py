"""Mastodon: one stream of an instance, and its timeline for what the stream missed.

As https://docs.joinmastodon.org/methods/streaming/ and /methods/timelines/ have it. `feeds` says
where a stream stands, `instance` whether it is shown, `statuses` makes frames, `timeline` fills
gaps, `source` ties them together.
"""
