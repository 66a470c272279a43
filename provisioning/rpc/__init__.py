"""Cast and call: the one door to django-q2 and to the agents."""
