"""The user's own profile, password and sessions."""
