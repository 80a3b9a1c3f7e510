"""Dead letters as they are read off their topic, and another attempt, one at a time on a host."""
