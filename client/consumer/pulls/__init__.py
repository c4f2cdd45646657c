"""What is pulled for a consumer, from which queues, and what of it is in memory."""
