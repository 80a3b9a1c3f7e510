"""The forms in which posts arrive, one module each."""
