"""`newsift bench stream`: the worker on a broker, beside the encoder and Faust's empty agent."""
