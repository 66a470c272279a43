"""Sign-in, sign-out, and the choice of the project."""
