//! Writes the library's header. In: the sources and cbindgen.toml of the folder above. Out: the header, on stdout.
//!
//! From the sources and not from the package, which would run `cargo metadata`, and that wants the sources of every
//! crate for every system.

use std::path::Path;

use cbindgen::{Builder, Config};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let builder = Builder::new().with_config(Config::from_file(root.join("cbindgen.toml"))?);
    // Modules are followed from here.
    builder.with_src(root.join("src/lib.rs")).generate()?.write(std::io::stdout());
    Ok(())
}
