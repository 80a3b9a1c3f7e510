"""What a person does to the topics, whichever face asks: the command line or the desk.

Seeds and labels are published and read back, events learn and promise, dead letters are sent
again, and what stands is told. Nothing here asks or prints: `told` says things to whoever listens.
"""
