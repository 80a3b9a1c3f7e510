"""Seed articles: found in a file, a page or a feed, tried on the last posts, put on their topic."""
