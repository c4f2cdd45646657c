"""Small files that are replaced whole: RocketMQ's JSON tables, checkpoint, recovery point, abort."""
