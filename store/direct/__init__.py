"""The direct put: ordinary messages in one compiled step, where it was built with the package."""
