"""Measures a cloud over HTTP, its own or any that speaks the OpenStack APIs: bin/bench http."""
