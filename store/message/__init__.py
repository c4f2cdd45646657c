"""What producers hand in and readers get back, and the checks in between."""
