"""How commands show what they found: tables, matches, times, and words in colour."""
