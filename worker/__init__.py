"""The stream, and the command line around it."""
