"""Makes a damaged directory sound, or rebuilds what is derived from the log."""

from mqstore.repair.rebuild import rebuild
from mqstore.repair.repair_copy import repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.repair.repair_plan import RepairPlan, plan_repair
from mqstore.store.errors import RepairRefused

__all__ = ["RepairPlan", "RepairRefused", "plan_repair", "rebuild", "repair_in_place", "repair_into"]
