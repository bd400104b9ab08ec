//! `docs/http-api.md`, written from the OpenAPI document: `cargo xtask docs` writes it, and a test fails when it is stale.
//!
//! What a reader needs before the reference itself is in `introduction.txt` beside this file.

use serde_json::Value;
use std::fmt::Write as _;

const DOCUMENT: &str = include_str!("../../openapi.json");
const INTRODUCTION: &str = include_str!("introduction.txt");
/// What the answers of operators' endpoints hold is for programs: the document has it, the page has its first level.
const DEPTH_MAX: usize = 2;
/// In the order in which the page lists them.
const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

fn page() -> String {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut page = INTRODUCTION.to_owned();
    for tag in document["tags"].as_array().unwrap() {
        let name = tag["name"].as_str().unwrap();
        let title = name[..1].to_uppercase() + &name[1..];
        write!(page, "\n## {title}\n\n{}\n", text(&tag["description"])).unwrap();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations(methods) {
                if operation["tags"][0] == name {
                    page += &endpoint(&document, &method, path, operation);
                }
            }
        }
    }
    page += "\n## Headers\n\n| header | value | meaning |\n|---|---|---|\n";
    for header in document["components"]["parameters"].as_object().unwrap().values() {
        let (name, value) = (text(&header["name"]), kind(&header["schema"]));
        writeln!(page, "| `{name}` | {value} | {} |", cell(&header["description"])).unwrap();
    }
    page += "\n## What bodies hold\n";
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        write!(page, "\n### {name}\n\n").unwrap();
        if let Some(description) = schema["description"].as_str() {
            write!(page, "{}\n\n", sentence(description)).unwrap();
        }
        match schema.get("anyOf") {
            Some(choices) => {
                let choices = choices.as_array().unwrap().iter().map(kind).collect::<Vec<_>>();
                writeln!(page, "One of: {}.", choices.join(", ")).unwrap();
            }
            None => page += &table(schema),
        }
    }
    linked(&page)
}

/// Turns paths such as `docs/why.md` into links. The document names pages by their paths in the repository; this page
/// is in the same folder as they are.
fn linked(text: &str) -> String {
    let mut parts = text.split("docs/");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(".md") {
            Some((name, rest)) => write!(made, "[{name}.md]({name}.md){rest}").unwrap(),
            None => write!(made, "docs/{part}").unwrap(),
        }
    }
    made
}

/// The operations of a path, each with its method. Methods that do the same, such as those of `/auth`, are one.
fn operations(methods: &Value) -> Vec<(String, &Value)> {
    let mut found: Vec<(String, &Value)> = Vec::new();
    for method in METHODS {
        let Some(operation) = methods.get(method) else { continue };
        let is_alike = |other: &Value| {
            other["summary"] == operation["summary"] && other["parameters"] == operation["parameters"]
        };
        match found.iter_mut().find(|(_, other)| is_alike(other)) {
            Some((names, _)) => write!(names, " or {}", method.to_uppercase()).unwrap(),
            None => found.push((method.to_uppercase(), operation)),
        }
    }
    found
}

fn endpoint(document: &Value, method: &str, path: &str, operation: &Value) -> String {
    let mut section = format!("\n### {method} {path}\n\n{}", sentence(text(&operation["summary"])));
    if let Some(description) = operation["description"].as_str() {
        write!(section, " {description}").unwrap();
    }
    // Those of many endpoints have a section of their own.
    let parameters = || operation["parameters"].as_array().into_iter().flatten();
    let shared = parameters().filter(|parameter| parameter.get("$ref").is_some());
    let shared: Vec<String> =
        shared.map(|header| format!("`{}`", text(&resolved(document, header)["name"]))).collect();
    if !shared.is_empty() {
        write!(section, " [Headers](#headers): {}.", shared.join(", ")).unwrap();
    }
    section += "\n\n";
    let own: Vec<&Value> = parameters().filter(|parameter| parameter.get("$ref").is_none()).collect();
    if !own.is_empty() {
        section += "| parameter | in | value | meaning |\n|---|---|---|---|\n";
        for parameter in own {
            let needed = if parameter["required"] == true { ", required" } else { "" };
            let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
            let (value, meaning) = (kind(&parameter["schema"]), cell(&parameter["description"]));
            writeln!(section, "| `{name}` | {place}{needed} | {value} | {meaning} |").unwrap();
        }
        section += "\n";
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if !body.is_null() {
        section += &format!("Body: {}\n\n", sentence(&described(&body["schema"])));
        if !body["example"].is_null() {
            section += &format!("```json\n{}\n```\n\n", body["example"]);
        }
        section += &inline(&body["schema"]);
    }
    section += "| status | when | body |\n|---|---|---|\n";
    let mut tables = String::new();
    for (status, answer) in operation["responses"].as_object().unwrap() {
        let answer = resolved(document, answer);
        let schema = &answer["content"]["application/json"]["schema"];
        let holds = if schema.is_null() { String::new() } else { escaped(&described(schema)) };
        writeln!(section, "| {status} | {} | {holds} |", sentence(text(&answer["description"]))).unwrap();
        tables += &inline(schema);
    }
    if tables.is_empty() { section } else { section + "\n" + tables.trim_end() + "\n" }
}

/// The fields of an object that has no name.
fn inline(schema: &Value) -> String {
    if schema.get("properties").is_some() { table(schema) + "\n" } else { String::new() }
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn table(schema: &Value) -> String {
    let mut rows = Vec::new();
    fields(schema, "", 0, &mut rows);
    if rows.is_empty() {
        return format!("{}.\n", kind(schema));
    }
    format!("| field | value | meaning |\n|---|---|---|\n{}\n", rows.join("\n"))
}

/// A row for each field, required ones first; of objects within, their fields too.
fn fields(schema: &Value, prefix: &str, depth: usize, rows: &mut Vec<String>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let optional = properties.keys().map(String::as_str).filter(|name| !required.contains(name));
    for name in required.iter().copied().chain(optional) {
        let Some(field) = properties.get(name) else { continue };
        let needed = if required.contains(&name) { "" } else { ", optional" };
        rows.push(format!(
            "| `{prefix}{name}` | {}{needed} | {} |",
            kind(field),
            cell(&field["description"])
        ));
        if depth < DEPTH_MAX {
            fields(field, &format!("{prefix}{name}."), depth + 1, rows);
            fields(&field["items"], &format!("{prefix}{name}[]."), depth + 1, rows);
        }
    }
}

/// A schema in a few words, and its description.
fn described(schema: &Value) -> String {
    match schema["description"].as_str() {
        Some(description) => format!("{}. {description}", kind(schema)),
        None => kind(schema),
    }
}

/// A schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", bare(value))).collect();
        return with_default(values.join(", "), schema);
    }
    if let Some(value) = schema.get("const") {
        return format!("`{}`", bare(value));
    }
    if let Some(choices) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array) {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let words = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let words: Vec<String> = words
        .into_iter()
        .map(|word| match word {
            "string" => format!("text{}", bounds(schema, "minLength", "maxLength", " characters")),
            "integer" => format!("whole number{}", bounds(schema, "minimum", "maximum", "")),
            "number" => format!("number{}", bounds(schema, "minimum", "maximum", "")),
            "array" => {
                let items = kind(&schema["items"]);
                // Else nobody sees which of two sizes belongs to which list.
                let items = if schema["items"]["type"] == "array" { format!("({items})") } else { items };
                format!("list of {items}{}", bounds(schema, "minItems", "maxItems", " of them"))
            }
            other => other.to_owned(),
        })
        .collect();
    with_default(words.join(" or "), schema)
}

fn with_default(words: String, schema: &Value) -> String {
    match schema.get("default") {
        Some(value) => format!("{words}; `{}` unless given", bare(value)),
        None => words,
    }
}

fn bounds(schema: &Value, least: &str, most: &str, unit: &str) -> String {
    match (schema[least].as_u64(), schema[most].as_u64().map(number)) {
        (Some(least), Some(most)) if least.to_string() == most => format!(", exactly {most}{unit}"),
        (Some(least), Some(most)) => format!(", {least} to {most}{unit}"),
        (None, Some(most)) => format!(", at most {most}{unit}"),
        (Some(least), None) if least > 0 => format!(", at least {least}{unit}"),
        _ => String::new(),
    }
}

fn number(number: u64) -> String {
    match number {
        9_007_199_254_740_992 => "2^53".to_owned(),
        9_007_199_254_740_991 => "2^53 − 1".to_owned(),
        _ => number.to_string(),
    }
}

fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn cell(value: &Value) -> String {
    escaped(text(value))
}

/// Escapes the characters that would end a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_page_says_what_the_document_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-api.md");
    if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "docs/http-api.md is stale: run `cargo xtask docs`");
}
