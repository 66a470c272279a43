"""What every part of the cloud shares: the request context and the roots of errors."""
