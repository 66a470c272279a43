"""The doctor, periodic jobs, and reports, deliveries and notifications that failed."""
