"""The command `newsift filter`: posts from files in, matches out, without a broker."""
