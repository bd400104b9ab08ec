# PyPI's unkey.py against a node: only the server's URL differs from what its users write. Windows are 30 days
# long, so that a run hardly ever meets the end of one.
import sys
import time

from unkey.py import Unkey, errors

MONTH = 30 * 24 * 3600 * 1000
NAMESPACE = "py.requests"

with Unkey(root_key="unkey_anything", server_url=sys.argv[1]) as unkey:
    api = unkey.ratelimit

    # Limits, costs and denials.
    def limit(identifier, limit=10, **more):
        return api.limit(namespace=NAMESPACE, identifier=identifier, limit=limit, duration=MONTH, **more).data

    first = limit("user", limit=3)
    assert (first.success, first.limit, first.remaining, first.override_id) == (True, 3, 2, None), first
    assert time.time() * 1000 < first.reset <= time.time() * 1000 + MONTH, first
    assert limit("user", limit=3, cost=2).remaining == 0
    assert limit("user", limit=3, cost=0).success
    denied = limit("user", limit=3)
    assert (denied.success, denied.remaining) == (False, 0), denied
    name = "😀" * 512
    assert [limit(name, limit=1).success for _ in range(2)] == [True, False]

    # Numbers beyond what JavaScript counts: they don't wrap.
    large = [limit("large", limit=2**63 - 1, cost=2**62).success for _ in range(2)]
    assert large == [True, False], large
    assert not limit("other", limit=10, cost=2**62).success

    # Several at once, all or none.
    both = [
        {"namespace": NAMESPACE, "identifier": "wide", "limit": 10, "duration": MONTH, "cost": 2},
        {"namespace": NAMESPACE, "identifier": "narrow", "limit": 1, "duration": MONTH},
    ]
    passed = api.multi_limit(request=both).data
    assert passed.passed and [one.remaining for one in passed.limits] == [8, 0], passed
    refused = api.multi_limit(request=both).data
    assert not refused.passed and [one.passed for one in refused.limits] == [True, False], refused
    assert refused.limits[0].remaining == 8 and refused.limits[1].identifier == "narrow", refused

    # Overrides.
    def override(identifier, limit):
        setting = {"namespace": NAMESPACE, "identifier": identifier, "limit": limit, "duration": MONTH}
        return api.set_override(**setting).data.override_id

    vip = override("vip_*", 100)
    told = limit("vip_7")
    assert (told.limit, told.remaining, told.override_id) == (100, 99, vip), told
    found = api.get_override(namespace=NAMESPACE, identifier="vip_*").data
    assert (found.override_id, found.identifier, found.limit, found.duration) == (vip, "vip_*", 100, MONTH)
    assert override("vip_*", 200) == vip
    assert limit("vip_7").remaining == 198
    override("mallory", 0)
    assert not limit("mallory").success
    for number in range(12):
        override(f"list_{number}", number)
    names = []
    page = api.list_overrides(namespace=NAMESPACE, limit=5)
    while page is not None:
        names += [one.identifier for one in page.result.data]
        page = page.next()
    assert len(names) == len(set(names)) == 14, names
    api.delete_override(namespace=NAMESPACE, identifier="vip_*")
    assert limit("vip_8").limit == 10
    assert override("vip_*", 50) != vip
    assert limit("vip_9").limit == 50

    # Errors are its own errors.
    def rejected(kind, call, **arguments):
        try:
            raise SystemExit(f"answered: {call(**arguments)}")
        except kind as error:
            assert error.data.meta.request_id and error.data.error.detail, error
            return error.data.error

    setting = {"namespace": NAMESPACE, "identifier": "x", "limit": 1, "duration": 999}
    bad = rejected(errors.BadRequestErrorResponse, api.limit, **setting)
    assert bad.errors[0].location == "body.duration" and bad.errors[0].fix, bad
    named = {"namespace": NAMESPACE, "identifier": "nobody"}
    for call in (api.get_override, api.delete_override):
        missing = rejected(errors.NotFoundErrorResponse, call, **named)
        assert missing.type == "https://unkey.com/docs/errors/unkey/data/ratelimit_override_not_found", missing

print("fine")
