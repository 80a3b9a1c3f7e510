"""What the README claims, as commands that print it: `newsift bench`.

It may use every room, and no room uses it.
"""
