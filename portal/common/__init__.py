"""What the faces share: request ids, sign-in, security headers, front-end packages."""
