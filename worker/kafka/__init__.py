"""How a broker is reached, asked, read and told: settings, clients, topics, deliveries.

Messages go on to `worker.stream`, or to the command that asked.
"""
