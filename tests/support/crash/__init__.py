"""The crash campaign: workloads, the states that a power cut can leave, their judge, kills, planted bugs."""
