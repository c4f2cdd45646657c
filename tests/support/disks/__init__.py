"""Disks that fail: simulated, on a loop device, forgetful; faults and interrupts that strike on them."""
