"""Common parts of the portal's packages: request ids, sign-in, security headers, front-end packages."""
