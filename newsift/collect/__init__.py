"""Collectors: live sources whose posts go to the posts topic without loss.

A source yields the frames of one connection after the other. The collector sends them to Kafka and
stores the acknowledged position.
"""
