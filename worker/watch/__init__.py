"""What an operator sees: metrics, and the pages that the worker serves.

Numbers come from every room of the worker; they go to Prometheus and to `newsift status`.
"""
