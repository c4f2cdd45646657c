"""The lite pull consumer: the application asks for messages, and says how far it has come."""
