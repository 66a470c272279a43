"""Style sheets, scripts and templates of all pages."""
