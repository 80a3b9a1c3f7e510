"""What events have learned from their posts, and what their thresholds promise.

Records come from the control topic and the topic of labels; `worker.judge` decides, and a profile
goes back to the control topic.
"""
