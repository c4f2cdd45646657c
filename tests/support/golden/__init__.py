"""The golden directories of Apache RocketMQ, and the pages that describe their bytes."""
