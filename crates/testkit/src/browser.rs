//! What drives Debian's Chromium, and what looks for barriers in a page: playwright-core and axe-core, of npm.

use crate::npm::npm;
use std::path::PathBuf;

/// The folder to run scripts in that import `playwright-core`; axe-core is in its `node_modules`. The browser itself
/// is the system's `chromium`.
pub fn browser_for_node() -> Result<PathBuf, String> {
    npm("browser-npm-1.52.0", "browser")
}
