"""`newsift collect`: from a platform, or a folder, to the topic of posts; one module a source."""
