"""What the pages of scores and of learning stand on: measures, near misses, figures, lessons."""
