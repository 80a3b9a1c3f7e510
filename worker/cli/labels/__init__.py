"""What people say of posts: asked for at a terminal, listed, read from files and written there."""
