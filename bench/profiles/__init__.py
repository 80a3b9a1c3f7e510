"""What events gain from their profiles, on crises whose posts are labelled, among news."""
