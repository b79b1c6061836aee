//! On macOS the linker must accept that Python's symbols are resolved when the module is loaded;
//! other systems do so by default.

use std::env;

/// Prints instructions for Cargo.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "macos") {
        println!("cargo::rustc-cdylib-link-arg=-undefined");
        println!("cargo::rustc-cdylib-link-arg=dynamic_lookup");
    }
}
