"""Hostile input against a running worker: at worst the sender's own message is refused."""
