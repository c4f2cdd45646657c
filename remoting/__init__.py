"""RocketMQ's remoting protocol as bytes, without I/O: for a server and for a client."""
