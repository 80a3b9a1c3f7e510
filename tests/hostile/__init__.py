"""What a stranger may write, against a worker that runs: at worst his own message is refused."""
