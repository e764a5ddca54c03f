//! Builds each release of the table, or those that are named, and says which one works here. Run it before a release of the table:
//! `cargo run --release -p allocanary-study --example every -- FOLDER [NAME...]`.

use std::process::ExitCode;

use allocanary_study::builds::cache::LibraryFolder;
use allocanary_study::builds::make::CrateSource;
use allocanary_study::builds::releases::{find, releases};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "builds".into());
    let cache = LibraryFolder::at(folder.as_ref());
    let named: Vec<String> = arguments.collect();
    let releases: Result<Vec<_>, _> = if named.is_empty() {
        Ok(releases().copied().collect())
    } else {
        named.iter().map(|name| find(name)).collect()
    };
    let releases = releases.expect("each name is a release");
    let mut failed = 0;
    for release in releases {
        match cache.build(&release, CrateSource::default()) {
            Ok(built) => println!("{}: {} bytes, reports {:?}", built.name(), built.bytes, built.reported),
            Err(error) => {
                failed += 1;
                println!("{error}");
            }
        }
    }
    ExitCode::from(u8::from(failed > 0))
}
