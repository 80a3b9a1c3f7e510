"""The commands of `newsift dead-letters`: what could not be worked on, and another attempt."""
