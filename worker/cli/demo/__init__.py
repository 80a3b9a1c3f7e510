"""The demonstration: sample posts, sent through a real broker and a real worker, and judged."""
