"""The person's own profile, password and sessions."""
