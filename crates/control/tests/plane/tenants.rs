//! A tenant changes what is its own, and nothing else.

use crate::support::*;
use tidegate_control::plane::{Ask, Keep, PlaneError, Push, Replace};
use tidegate_rules::{DocumentName, Mode};

const ACME: &str =
    "tenant: acme\nnamespace: api\nrules:\n  - { name: per-user, key: [user], limit: 5 per 1m }\n";

fn of_acme(ask: Ask) -> Push {
    Push { tenant: Some("acme".into()), ..push(ask) }
}

#[tokio::test(start_paused = true)]
async fn what_is_anothers_or_the_fleets_is_out_of_reach() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    plane.push(of_acme(files(ACME))).await.unwrap();
    for ask in [
        files(RULES.replace("100", "5").as_str()),
        files(&format!("{ACME}---\nnamespace: web\n")),
        set("{ rule: per-user, user: bob, limit: 7 }"),
        Ask::Reset { document: api(), entry: source("{ rule: per-user, user: bob }") },
    ] {
        let error = plane.push(of_acme(ask.clone())).await.expect_err("another's");
        assert!(matches!(error, PlaneError::Forbidden { .. }), "{ask:?}: {error}");
    }
    for ask in [Ask::FleetMode(Mode::Off), files(&ACME.replace("rules:", "fleet_mode: off\nrules:"))] {
        let error = plane.push(of_acme(ask)).await.expect_err("the fleet's");
        assert!(matches!(error, PlaneError::FleetIsForbidden), "{error}");
    }
    assert_eq!(plane.standing().version, 2);
}

#[tokio::test(start_paused = true)]
async fn all_and_back_mean_its_own() {
    let plane = open(&store()).await;
    plane.push(of_acme(files(ACME))).await.unwrap();
    pushed(&plane, files(RULES)).await;
    let web = ACME.replace("namespace: api", "namespace: web");
    plane.push(of_acme(files_as(&web, Replace::All, Keep::Replaced))).await.unwrap();
    let names = |plane: &tidegate_control::plane::ControlPlane| {
        plane
            .standing()
            .documents
            .keys()
            .map(|name| format!("{}/{}", name.tenant, name.namespace))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&plane), ["acme/web", "default/api"]);
    plane.push(of_acme(Ask::RollBack { to: 1 })).await.unwrap();
    assert_eq!(names(&plane), ["acme/api", "default/api"], "what others did meanwhile stays");
    let of_namespace = DocumentName { tenant: "acme".into(), namespace: "web".into() };
    let versions = async |tenant: Option<&str>, namespace: Option<&DocumentName>| {
        let page = plane.history(tenant, namespace, u64::MAX, 100).await.unwrap();
        page.iter().map(|summary| summary.version).collect::<Vec<_>>()
    };
    assert_eq!(versions(None, None).await, [4, 3, 2, 1]);
    assert_eq!(versions(Some("acme"), None).await, [4, 3, 1]);
    assert_eq!(versions(None, Some(&of_namespace)).await, [4, 3]);
}
