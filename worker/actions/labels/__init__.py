"""Labels on their topic, and the posts that somebody may be asked about: matches, near misses."""
