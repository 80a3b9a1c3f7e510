"""The commands of `newsift events`: what events have learned and promise, shown and agreed to."""
