"""The file orders.parquet, with the columns that a bulk put takes."""

import pyarrow as pa
import pyarrow.parquet as pq

pq.write_table(
    pa.table({"body": [b"one", b"two"], "tags": ["created", "paid"], "keys": ["o-1", "o-2"]}),
    "orders.parquet",
)
