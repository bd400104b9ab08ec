//! What docs/control.md tells people to do, done, in order.

use crate::ready;
use crate::scene::Server;
use crate::support::Directory;
use std::process::Command;

#[test]
fn the_page_on_the_control_plane_does_what_it_says() {
    let path = format!("{}/../../docs/control.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let blocks = |language: &str| -> Vec<&str> {
        let fence = format!("```{language}\n");
        page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
    };
    let scripts = blocks("sh");
    assert!(scripts.len() >= 5 && scripts[0].starts_with("tidegate control"), "{scripts:?}");
    let (server, directory) = (ready(Server::control()), Directory::new());
    directory.write("rules.yaml", blocks("yaml")[0]);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let search = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    for script in &scripts[1..] {
        let script = script.replace("http://127.0.0.1:7070", &server.url());
        let mut command = Command::new("bash");
        command.args(["-ec", &script]).env("PATH", &search).current_dir(directory.path(""));
        command.env("TIDEGATE_CONTROL_LISTEN", &server.address);
        let output = command.output().expect("bash and curl");
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script}: {said}");
        assert!(!said.contains("\"error\""), "{script}: {said}");
    }
    let history = server.get("/v1/rules/history");
    assert!(history["version"].as_u64().is_some_and(|version| version >= 4), "{history}");
}
