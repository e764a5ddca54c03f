//! Writes the library's header. In: the sources and cbindgen.toml of the folder above. Out: the header, on stdout.
//!
//! It reads the sources and not the package: to read the package, cbindgen would run `cargo metadata`, which needs the
//! sources of every crate for every system.

use std::path::Path;

use cbindgen::{Builder, Config};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let builder = Builder::new().with_config(Config::from_file(root.join("cbindgen.toml"))?);
    // cbindgen follows the modules from here.
    builder.with_src(root.join("src/lib.rs")).generate()?.write(std::io::stdout());
    Ok(())
}
