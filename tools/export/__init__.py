"""Messages as files for other programs: Parquet, JSON lines, CSV; one file, or a directory by topic and date.

Importing this package imports no pyarrow; `export` does.
"""

from mqstore.tools.export.export_errors import ExportRefused, PyarrowMissing, TopicUnknown
from mqstore.tools.export.store_export import ExportReport, export

__all__ = ["ExportRefused", "ExportReport", "PyarrowMissing", "TopicUnknown", "export"]
