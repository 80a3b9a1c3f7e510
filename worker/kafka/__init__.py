"""How a broker is reached, asked, read and told: settings, clients, topics and what they should be.

Messages go on to `worker.stream`, or to the command that asked.
"""
