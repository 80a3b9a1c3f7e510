"""Seeds as the desk keeps them: listed, changed one at a time, brought back, drawn from feeds."""
