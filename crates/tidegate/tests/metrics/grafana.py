"""Reads a dashboard into Grafana's own model of dashboards, generated from its schema, and writes it again.

Argument: the file. What comes back otherwise, or not at all, isn't of that schema: each such place is printed.
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def differences(written, again, place):
    if isinstance(written, dict) and isinstance(again, dict):
        for name, value in written.items():
            if name in again:
                yield from differences(value, again[name], f"{place}.{name}")
            else:
                yield f"{place}.{name}: there is no such field"
    elif isinstance(written, list) and isinstance(again, list) and len(written) == len(again):
        for number, (one, other) in enumerate(zip(written, again)):
            yield from differences(one, other, f"{place}[{number}]")
    elif written != again:
        yield f"{place}: {json.dumps(written)} became {json.dumps(again)}"


register_default_plugins()
with open(sys.argv[1], encoding="utf-8") as file:
    written = json.load(file)
again = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
for difference in differences(written, again, "dashboard"):
    print(difference)
