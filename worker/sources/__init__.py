"""Live sources: what a platform sends goes to the topic of posts, and nothing it can give is lost.

A source hands on the frames of one connection after the other; the collector sends them to Kafka,
and keeps how far that was acknowledged. From the topic on a post is the worker's (worker/stream).
"""
