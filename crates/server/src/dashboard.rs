//! The dashboard's files, as they are in `crates/server/dashboard`: in the binary, so that it needs nothing beside it.
//!
//! They hold no data: whoever opens the page sees an empty one until it has asked as somebody. Nothing of it may come
//! from another host, and no script may stand in the page itself: the browser is told so.

use crate::request_id::{self, RequestId};
use crate::respond::HttpResponse;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS,
};

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
);

/// One file, by its place in [`FILES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct File(usize);

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        [$((concat!("/dashboard/", $name), $kind, include_str!(concat!("../dashboard/", $name)))),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, type and content. The first is the page itself.
const FILES: [(&str, &str, &str); 26] = files![
    "index.html" HTML,
    "style.css" CSS,
    "icon.svg" SVG,
    "theme.js" SCRIPT,
    "app.js" SCRIPT,
    "ask.js" SCRIPT,
    "live.js" SCRIPT,
    "element.js" SCRIPT,
    "words.js" SCRIPT,
    "vendor/uplot.js" SCRIPT,
    "vendor/uplot.css" CSS,
    "past.js" SCRIPT,
    "chart.js" SCRIPT,
    "charts.js" SCRIPT,
    "timeline.js" SCRIPT,
    "difference.js" SCRIPT,
    "trial.js" SCRIPT,
    "overview.js" SCRIPT,
    "callers.js" SCRIPT,
    "why.js" SCRIPT,
    "rules.js" SCRIPT,
    "code.js" SCRIPT,
    "editor.js" SCRIPT,
    "versions.js" SCRIPT,
    "overrides.js" SCRIPT,
    "tiers.js" SCRIPT,
];

/// The page.
pub(crate) const PAGE: File = File(0);

/// The file at a path.
pub(crate) fn file(path: &str) -> Option<File> {
    FILES.iter().position(|(known, _, _)| *known == path).map(File)
}

/// Whether the page is meant: a browser says that it takes HTML, `curl` doesn't.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

pub(crate) fn answer(File(index): File, id: RequestId) -> HttpResponse {
    let (_, kind, content) = FILES[index];
    let mut response = Response::new(Full::new(Bytes::from_static(content.as_bytes())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A node that was replaced by a newer one shows the newer page at once.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(request_id::HEADER, id.into_header());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_small() {
        let bytes: usize = FILES.iter().map(|(_, _, content)| content.len()).sum();
        assert!(bytes <= 260_000, "{bytes} bytes");
    }

    #[test]
    fn what_files_name_is_there() {
        for (path, _, content) in FILES {
            let quoted = content
                .split(['"', '\'', '(', ')'])
                .filter(|text| text.ends_with(".js") || text.ends_with(".css") || text.ends_with("icon.svg"));
            for named in quoted {
                let named =
                    named.strip_prefix("./").map_or(named.to_owned(), |name| format!("/dashboard/{name}"));
                assert!(file(&named).is_some(), "{path} names {named}");
            }
        }
    }

    #[test]
    fn nothing_of_it_names_another_host_or_has_a_script_inside() {
        for (path, _, content) in FILES {
            let hosts =
                content.split("//").skip(1).map(|rest| rest.split(['/', '"', '\'']).next().unwrap_or(""));
            let others: Vec<&str> = hosts.filter(|host| host.contains('.') && !host.contains(' ')).collect();
            let is_namespace = |host: &&str| *host == "www.w3.org";
            assert!(others.iter().all(is_namespace), "{path}: {others:?}");
            assert!(!content.contains("style=\"") && !content.contains("onclick="), "{path}");
        }
        assert!(!FILES[0].2.contains("<script>"));
    }
}
