//! The manifests: against Kubernetes' own schemas, against each other, and as processes that run by them, with what
//! they mount in a directory of this machine.

mod processes;

use super::{Variables, assert_accepted, folder, read};
use crate::support::Directory;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Has the schemas of all versions, and PyYAML.
const VALIDATOR: &str = "kubernetes-validate==1.37.0";
/// The first that has sidecars by itself, and what came since.
const VERSIONS: [&str; 3] = ["1.29", "1.33", "1.37"];
const FILES: [&str; 3] = ["sidecar.yaml", "control.yaml", "brokers.yaml"];

/// All documents of these files, or what is wrong with them.
fn validated(paths: &[PathBuf]) -> Result<Vec<Value>, String> {
    let packages = tidegate_testkit::wheel("kubernetes-validate", VALIDATOR, &[])?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/deploy/kubernetes.py");
    let mut command = Command::new("python3");
    command.arg(script).args(VERSIONS).arg("--").args(paths).env("PYTHONPATH", packages);
    let output = command.output().map_err(|error| format!("python3: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn manifests() -> Vec<Value> {
    let paths = FILES.map(|name| folder().join("kubernetes").join(name));
    validated(&paths).unwrap_or_else(|problem| panic!("{problem}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}"))
}

/// What makes pods.
fn workloads(documents: &[Value]) -> Vec<&Value> {
    documents.iter().filter(|document| document["spec"]["template"].is_object()).collect()
}

fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]
}

fn containers(workload: &Value) -> impl Iterator<Item = &Value> {
    list(&pod(workload)["initContainers"]).iter().chain(list(&pod(workload)["containers"]))
}

/// The one that runs our binary.
fn ours(workload: &Value) -> &Value {
    containers(workload).find(|container| container["name"] == "tidegate").unwrap()
}

/// Where a volume of a container is on this machine.
fn mounted(directory: &Directory, volume: &str) -> PathBuf {
    let path = directory.path(volume);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// What a container's process is given, with its mounts moved into a directory.
fn variables(container: &Value, directory: &Directory) -> Variables {
    let moved = |value: &str| {
        let mut value = value.to_owned();
        for mount in list(&container["volumeMounts"]) {
            let place = mounted(directory, text(&mount["name"])).display().to_string();
            value = value.replace(text(&mount["mountPath"]), &place);
        }
        value
    };
    let pair = |variable: &Value| {
        let value = match &variable["value"] {
            Value::Null => "a-pod-0".to_owned(),
            value => moved(text(value)),
        };
        (text(&variable["name"]).to_owned(), value)
    };
    list(&container["env"]).iter().map(pair).collect()
}

/// As `docs/kubernetes.md` makes them.
fn write_secrets(directory: &Directory, store: &str) {
    let secret = mounted(directory, "secret");
    let tokens = secret.join("tokens.toml").display().to_string();
    for (name, permissions) in [("caller", "check"), ("follower", "read"), ("operator", "read,admin")] {
        let arguments =
            ["token", "new", "--tenant", "default", "--permissions", permissions, "--auth-tokens", &tokens];
        let made = crate::support::run(&Directory::new(), &arguments, &[]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        std::fs::write(secret.join(format!("{name}-token")), made.stdout).unwrap();
    }
    std::fs::write(secret.join("fleet-secret"), "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(secret.join("origin-url"), "redis://127.0.0.1:1\n").unwrap();
    std::fs::write(secret.join("store-url"), store).unwrap();
    let rules = mounted(directory, "rules");
    std::fs::write(rules.join("rules.yaml"), crate::support::rules_of(3)).unwrap();
}

#[test]
fn every_manifest_fits_the_schemas_and_a_misspelt_field_does_not() {
    let documents = manifests();
    let mut kinds: Vec<&str> = documents.iter().map(|document| text(&document["kind"])).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let expected =
        ["ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet"];
    assert_eq!(kinds, expected);
    let directory = Directory::new();
    directory.write(
        "wrong.yaml",
        read("kubernetes/sidecar.yaml").replace("readOnlyRootFilesystem:", "readonlyRoot:"),
    );
    let problem = validated(&[directory.path("wrong.yaml")]).unwrap_err();
    assert!(problem.contains("readonlyRoot"), "{problem}");
}

#[test]
fn the_manifests_settings_are_settings() {
    for workload in workloads(&manifests()) {
        let directory = Directory::new();
        write_secrets(&directory, "sqlite:rules.db\n");
        assert_accepted(&directory, &[], &variables(ours(workload), &directory));
    }
}

/// What schemas can't say: names that must be the same in two places.
#[test]
fn what_is_named_is_there() {
    let documents = manifests();
    let workloads = workloads(&documents);
    assert_eq!(workloads.len(), 3);
    for workload in &workloads {
        let volumes: Vec<&Value> = list(&pod(workload)["volumes"])
            .iter()
            .map(|volume| &volume["name"])
            .chain(
                list(&workload["spec"]["volumeClaimTemplates"])
                    .iter()
                    .map(|claim| &claim["metadata"]["name"]),
            )
            .collect();
        for container in containers(workload) {
            for mount in list(&container["volumeMounts"]) {
                assert!(volumes.contains(&&mount["name"]), "{mount}");
            }
            let ports: Vec<&Value> = list(&container["ports"]).iter().map(|port| &port["name"]).collect();
            for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
                let port = &container[probe]["httpGet"]["port"];
                assert!(port.is_null() || ports.contains(&port), "{probe}: {port}");
            }
        }
        let labels = workload["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
        let is_chosen = |selector: &Value| {
            selector
                .as_object()
                .is_some_and(|wanted| wanted.iter().all(|(name, value)| labels.get(name) == Some(value)))
        };
        assert!(is_chosen(&workload["spec"]["selector"]["matchLabels"]));
        let budgets = documents.iter().filter(|document| document["kind"] == "PodDisruptionBudget");
        assert_eq!(budgets.filter(|budget| is_chosen(&budget["spec"]["selector"]["matchLabels"])).count(), 1);
    }
    let brokers = workloads.iter().find(|workload| workload["kind"] == "StatefulSet").unwrap();
    assert_eq!(brokers["spec"]["replicas"], 3);
    let service = |document: &&Value| {
        document["kind"] == "Service" && document["metadata"]["name"] == brokers["spec"]["serviceName"]
    };
    assert_eq!(documents.iter().find(service).unwrap()["spec"]["clusterIP"], "None");
}

/// What the page makes is what the manifests mount.
#[test]
fn the_page_makes_every_secret_with_every_key() {
    let page = std::fs::read_to_string(folder().join("../docs/kubernetes.md")).unwrap().replace("\\\n", " ");
    let documents = manifests();
    for workload in workloads(&documents) {
        for container in containers(workload) {
            for mount in list(&container["volumeMounts"]) {
                let volume =
                    list(&pod(workload)["volumes"]).iter().find(|volume| volume["name"] == mount["name"]);
                let Some(secret) = volume.and_then(|volume| volume["secret"]["secretName"].as_str()) else {
                    continue;
                };
                let line =
                    page.lines().find(|line| line.contains(&format!("create secret generic {secret} ")));
                let line = line.unwrap_or_else(|| panic!("the page doesn't make {secret}"));
                let within = format!("{}/", text(&mount["mountPath"]));
                let named = list(&container["env"])
                    .iter()
                    .filter_map(|variable| variable["value"].as_str()?.strip_prefix(&within));
                for key in named {
                    assert!(line.contains(&format!("--from-file={key}=")), "{line} lacks {key}");
                }
            }
        }
    }
}

/// `1Gi`, `256Mi`, in MiB.
fn mebibytes(quantity: &Value) -> u64 {
    let quantity = text(quantity);
    match (quantity.strip_suffix("Gi"), quantity.strip_suffix("Mi")) {
        (Some(number), _) => number.parse::<u64>().unwrap() * 1024,
        (None, Some(number)) => number.parse().unwrap(),
        (None, None) => panic!("{quantity}"),
    }
}

#[test]
fn the_limiter_has_limits_and_time_to_end_and_room_for_its_log() {
    for workload in workloads(&manifests()) {
        let container = ours(workload);
        for (kind, what) in
            [("requests", "cpu"), ("requests", "memory"), ("limits", "cpu"), ("limits", "memory")]
        {
            assert!(container["resources"][kind][what].is_string(), "{kind} of {what}: {container}");
        }
        let setting = |name: &str| {
            let found = list(&container["env"]).iter().find(|variable| variable["name"] == name);
            found.map(|variable| text(&variable["value"]).parse::<u64>().unwrap())
        };
        let waits =
            |container: &Value| container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap_or(0);
        let before_s: u64 = containers(workload).map(waits).sum();
        // Two seconds to publish, the save, and the API's own end.
        let needed_s = before_s + setting("TIDEGATE_SHUTDOWN_DRAIN_MS").unwrap() / 1000 + 5;
        assert!(pod(workload)["terminationGracePeriodSeconds"].as_u64().unwrap() >= needed_s);
        let volume = list(&pod(workload)["volumes"]).iter().find(|volume| volume["name"] == "data");
        if let (Some(log_mb), Some(volume)) = (setting("TIDEGATE_LOG_DECISIONS_MAX_MB"), volume) {
            // Beside it: counts at 48 bytes a key, or rules of a control plane.
            assert!(mebibytes(&volume["emptyDir"]["sizeLimit"]) >= log_mb + 256);
            assert!(mebibytes(&container["resources"]["limits"]["ephemeral-storage"]) >= log_mb + 256);
        }
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    }
}
