"""Makes a damaged directory sound, or rebuilds what is derived from the log."""

from mqstore.repair.rebuild import rebuild
from mqstore.repair.repair_plan import RepairPlan, RepairRefused, plan_repair, repair_in_place, repair_into

__all__ = ["RepairPlan", "RepairRefused", "plan_repair", "rebuild", "repair_in_place", "repair_into"]
