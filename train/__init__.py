"""From pairs of posts and articles to a model directory."""
