"""What a schema can't say of Tidegate's API. Schemathesis reads it by SCHEMATHESIS_HOOKS."""

import gc
import json
import re
import uuid

import schemathesis

# CPython 3.11 loses count of its recursion when it collects while it parses a source, as hypothesis has it do. A run is
# short.
gc.disable()

KEY = re.compile(r"[!-~]([\t -~]*[!-~])?")


@schemathesis.hook
def before_call(context, case, kwargs):
    # A key is for one request, and another body by the same key is refused; a generator repeats short ones.
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and len(key) <= 255 and KEY.fullmatch(key):
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    case.body = as_written(case.body)


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """A text as it is; what is none, as a line of JSON that isn't a change."""
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def as_written(value, name=None):
    """The numbers as a caller has to write them: whole ones without a point, and rates that are exact."""
    if isinstance(value, list):
        return [as_written(item) for item in value]
    if isinstance(value, dict):
        written = {name: as_written(item, name) for name, item in value.items()}
        rate, burst = written.get("rate_per_s"), written.get("burst")
        if type(rate) is int and type(burst) is int and 0 < rate <= 10**9 and burst <= 2**53:
            # It has to come back within a hundred years.
            written["burst"] = min(burst, rate * 3_000_000_000)
        return written
    if isinstance(value, float) and name == "rate_per_s" and 0 < value <= 1e9:
        return max(1, round(value))
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value
