"""Who is served: signed requests, and TLS on the port."""
