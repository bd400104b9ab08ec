"""Validates manifests against the schemas of several versions of Kubernetes and prints them as one JSON list.

Arguments: the versions, `--`, the files. A field that a schema doesn't have is an error, as `kubectl apply` has it.
"""

import json
import sys

import kubernetes_validate
import yaml

split = sys.argv.index("--")
versions, paths = sys.argv[1:split], sys.argv[split + 1 :]
documents = []
for path in paths:
    with open(path, encoding="utf-8") as file:
        for document in yaml.safe_load_all(file):
            for version in versions:
                try:
                    kubernetes_validate.validate(document, version, strict=True)
                except Exception as error:  # Of several kinds; each says what and where.
                    place = "/".join(str(part) for part in getattr(error, "path", []))
                    sys.exit(f"{path}: {document.get('kind')} at {place} ({version}): {error}")
            documents.append(document)
json.dump(documents, sys.stdout)
