//! A tenant changes what is its own, and nothing else.

use crate::support::*;
use tidegate_control::plane::{OverrideRetention, PlaneError, Push, PushChange, Replace};
use tidegate_rules::{DocumentName, Mode};

const ACME: &str =
    "tenant: acme\nnamespace: api\nrules:\n  - { name: per-user, key: [user], limit: 5 per 1m }\n";

fn of_acme(ask: PushChange) -> Push {
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
        PushChange::Reset { document: api(), entry: source("{ rule: per-user, user: bob }") },
    ] {
        let error = plane.push(of_acme(ask.clone())).await.expect_err("another's");
        assert!(matches!(error, PlaneError::Forbidden { .. }), "{ask:?}: {error}");
    }
    for ask in [PushChange::FleetMode(Mode::Off), files(&ACME.replace("rules:", "fleet_mode: off\nrules:"))] {
        let error = plane.push(of_acme(ask)).await.expect_err("the fleet's");
        assert!(matches!(error, PlaneError::FleetIsForbidden), "{error}");
    }
    assert_eq!(plane.rules().version, 2);
}

#[tokio::test(start_paused = true)]
async fn all_and_back_mean_its_own() {
    let plane = open(&store()).await;
    plane.push(of_acme(files(ACME))).await.unwrap();
    pushed(&plane, files(RULES)).await;
    let web = ACME.replace("namespace: api", "namespace: web");
    plane.push(of_acme(files_as(&web, Replace::All, OverrideRetention::Pruned))).await.unwrap();
    let names = |plane: &tidegate_control::plane::ControlPlane| {
        plane
            .rules()
            .documents
            .keys()
            .map(|name| format!("{}/{}", name.tenant, name.namespace))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&plane), ["acme/web", "default/api"]);
    plane.push(of_acme(PushChange::RollBack { to: 1 })).await.unwrap();
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

fn many(tenant: &str, rules: usize) -> String {
    let mut text = String::new();
    for rule in 0..rules {
        if rule % 13_000 == 0 {
            text.push_str(&format!("---\ntenant: {tenant}\nnamespace: bulk-{rule}\nrules:\n"));
        }
        text.push_str(&format!(
            "- {{ name: {tenant}-{rule}, key: [u], when: {{ p: v{rule} }}, limit: 9 per 1h }}\n"
        ));
    }
    text
}

#[tokio::test(start_paused = true)]
async fn two_hostile_tenants_leave_room_for_an_honest_one() {
    let plane = open(&store()).await;
    let push_as = |tenant: &str, text: &str| Push { tenant: Some(tenant.into()), ..push(files(text)) };
    pushed(&plane, files(RULES)).await;
    let honest = ACME.replace("tenant: acme", "tenant: honest");
    for hostile in ["mallory", "trudy"] {
        // More than its share, then as much as it gets.
        let refused =
            plane.push(push_as(hostile, &many(hostile, 26_000))).await.expect_err("too many").to_string();
        assert!(refused.contains(&format!("tenant {hostile} would have 26000 rules")), "{refused}");
        for other in ["default", "honest", if hostile == "mallory" { "trudy" } else { "mallory" }] {
            assert!(!refused.contains(other), "{refused}");
        }
        plane.push(push_as(hostile, &many(hostile, 2_000))).await.unwrap();
        // Pushes, previews and what everybody hears of go on for the others.
        let version = plane.rules().version;
        let number = if hostile == "mallory" { "6 per" } else { "7 per" };
        let next = push_as("honest", &honest.replace("5 per", number));
        assert_eq!(plane.preview(&next).await.unwrap().version, version);
        let mut sent = plane.subscribe();
        plane.push(next).await.unwrap();
        assert_eq!(sent.recv().await.unwrap().delta.version, version + 1);
    }
    // A tenant that has used up its share may still change its rules and remove some.
    plane.push(push_as("mallory", &many("mallory", 1_000))).await.unwrap();
    let bad = PushChange::Changes(vec![tidegate_rules::RuleChange::Document {
        name: DocumentName { tenant: "honest".into(), namespace: "api".into() },
        text: Some("tenant: honest\nnamespace: api\nrules: [{ name: a }]\n".into()),
    }]);
    let told =
        plane.push(Push { tenant: Some("honest".into()), ..push(bad) }).await.expect_err("bad").to_string();
    assert!(told.contains("honest/api:3") && !told.contains("mallory"), "{told}");
}
