"""Scores: sparse word rows and exact sums."""
