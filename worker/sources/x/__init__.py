"""X: the filtered stream of its API v2, and the rules that say what it holds.

As https://docs.x.com/x-api/posts/filtered-stream/introduction and the pages on streams of
https://docs.x.com/x-api/fundamentals/ have it. `rules` reads a file of rules, `rule_book` keeps X
in step with it, `said` tells posts from the ends that X announces, `source` ties them together.
"""
