"""The image cache ``_base``: every image is fetched and checked once per host, however many builds ask for it at once."""
