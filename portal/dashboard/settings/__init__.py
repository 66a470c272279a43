"""What is one's own: profile, password, sessions."""
