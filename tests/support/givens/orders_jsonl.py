"""The file orders.jsonl."""

from pathlib import Path

Path("orders.jsonl").write_text(
    '{"id": "o-3", "state": "created", "total": 12.5}\n'
    '{"id": "o-4", "state": "paid", "total": 99.9}\n'
    '{"id": "o-5", "state": "created", "total": 7.0}\n'
)
