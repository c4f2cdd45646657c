"""Checks every byte of a store directory against its log, and changes nothing."""

from mqstore.store.finding import Finding
from mqstore.verify.verification import VerifyReport, verify

__all__ = ["Finding", "VerifyReport", "verify"]
