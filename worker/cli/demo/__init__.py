"""`newsift demo`: broker, worker and sample posts on one machine, for half a minute.

What is sent stands in a script, against which what comes back is held.
"""
