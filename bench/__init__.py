"""What the README claims about speed, as commands."""
