"""Pages of one record: details, forms, questions, and the messages of their errors."""
