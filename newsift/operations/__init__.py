"""Operations on the topics, for the command line and the desk.

They publish and read seeds, labels, profiles and promises, and retry dead letters. They ask no
questions; messages go to `newsift.operations.messages`.
"""
