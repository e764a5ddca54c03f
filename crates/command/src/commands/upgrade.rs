//! `allocanary upgrade`: compares two versions of an allocator under the user's programs. In: two candidates and
//! programs. Out: the output of `run`; for several programs also one table and one sentence.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::build::make_missing;
use super::measure::{Measurement, findings};
use super::output::Output;
use super::run::{self, candidates, started::Started};
use super::terminal;
use allocanary_args::UpgradeFlags;
use allocanary_cell::Cell;
use allocanary_doctor::installed::Installed;
use allocanary_error::{Error, Result};
use allocanary_report::upgrade::upgrade;
use allocanary_session::{Executor, Outcome, Program, Studies, StudyFile, Target};

/// Compares the two versions.
pub fn run(flags: &UpgradeFlags) -> Result<ExitCode> {
    if flags.resume && flags.run.out.is_none() {
        return Err(Error::Input("--resume: wanted --out with the folder of the upgrade to finish".into()));
    }
    let installed = candidates::installed();
    let both = both(flags, &installed)?;
    let files = files(flags, &both)?;
    // This is done last, because it takes minutes: mistakes are reported before.
    make_missing(&both, |name| candidates::is_there(name, &installed))?;
    let target = flags.run.out.as_deref().map(Target::of).transpose()?;
    let output = Output::of_tables("upgrade", &flags.tables, &files)?;
    match <[StudyFile; 1]>::try_from(files) {
        Ok([file]) => run::run_study(file, target, &flags.run, flags.resume, output),
        Err(files) => several(files, target, flags, output),
    }
}

/// Both candidates, with complete versions.
fn both(flags: &UpgradeFlags, installed: &[Installed]) -> Result<[String; 2]> {
    let both = [&flags.from, &flags.to].map(|name| candidates::whole(name, installed));
    if both[0] == both[1] {
        return Err(Error::Input(format!("--to: wanted another candidate than --from, found {} twice", both[0])));
    }
    Ok(both)
}

/// A study for each program, with both candidates.
fn files(flags: &UpgradeFlags, both: &[String; 2]) -> Result<Vec<StudyFile>> {
    if let Some(plain) = flags.plain() {
        if !flags.files.is_empty() {
            let text = "--program: wanted files, or one program after `--`, found both: write the program into a file";
            return Err(Error::Input(text.into()));
        }
        return Ok(vec![flags.over(plain, both.to_vec())]);
    }
    if flags.files.is_empty() {
        let text = "wanted a program after `--`, or --program FILE, found neither; a trace is replayed by the allocators of this build \
                    alone: `allocanary replay`";
        return Err(Error::Input(text.into()));
    }
    let mut all: Vec<StudyFile> = Vec::new();
    for path in &flags.files {
        let file = run::only_study(path)?;
        if file.program.is_none() {
            return Err(Error::Input(format!("{}: wanted a [program] table, found none", path.display())));
        }
        let name = (flags.files.len() > 1).then(|| name_of(path, &all));
        all.push(StudyFile { name: name.or(file.name.clone()), ..flags.over(file, both.to_vec()) });
    }
    Ok(all)
}

/// The name of a file's study in the rows: the name in the file, with a number if it is already used.
fn name_of(path: &Path, before: &[StudyFile]) -> String {
    let own = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_taken = |name: &String| before.iter().any(|file| file.name.as_ref() == Some(name));
    let numbered = (2..).map(|number| format!("{own}-{number}"));
    std::iter::once(own.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

fn several(files: Vec<StudyFile>, target: Option<Target>, flags: &UpgradeFlags, output: Output) -> Result<ExitCode> {
    let mut begun: Vec<(StudyFile, Started)> = Vec::new();
    for file in files {
        let Some(one) = run::begin(file, &flags.run)? else { return Ok(ExitCode::from(130)) };
        begun.push(one);
    }
    let target = target.unwrap_or(Target::Fresh("upgrade".into())).make()?;
    let (group, mut all): (Vec<StudyFile>, Vec<Started>) = begun.into_iter().unzip();
    if let Target::Folder(folder) = &target {
        let named = group.iter().filter_map(|file| file.name.as_ref()).zip(&mut all);
        named.for_each(|(name, started)| started.keep_in(folder.join("cells").join(name)));
    }
    let names = group.iter().map(|file| file.name.clone().unwrap_or_default());
    let programs = Programs(names.zip(all.iter().map(|one| Program::new(&one.launcher))).collect());
    let group = Studies(group);
    let roster = all[0].roster();
    let (rows, brief) = (target.rows(), output.is_brief());
    let measurement = Measurement {
        group: &group,
        roster: &roster,
        target,
        resume: flags.resume,
        executor: &programs,
        lines: flags.run.lines,
        output,
    };
    let code = measurement.run()?;
    if let Some(rows) = rows.filter(|_| !brief)
        && let Some(text) = upgrade(&findings(&[rows], &group)?, &terminal::look())
    {
        terminal::print_plain(&format!("\n{text}"))?;
    }
    Ok(code)
}

/// Several programs. The launcher of its study runs each cell.
struct Programs<'a>(BTreeMap<String, Program<'a>>);

impl<'a> Programs<'a> {
    fn of(&self, cell: &Cell) -> &Program<'a> {
        let name = cell.study.as_deref().unwrap_or_default();
        self.0.get(name).or_else(|| self.0.values().next()).expect("there are two programs or more")
    }
}

impl Executor for Programs<'_> {
    fn run(&self, cell: &Cell, deadline: Duration, stop: &AtomicBool) -> Outcome {
        self.of(cell).run(cell, deadline, stop)
    }

    fn builds(&self, cells: &mut dyn Iterator<Item = &Cell>) -> BTreeMap<String, String> {
        cells.flat_map(|cell| self.of(cell).builds(&mut std::iter::once(cell))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_of_one_name_have_two_names() {
        let named = |name: &str| StudyFile { name: Some(name.into()), ..StudyFile::default() };
        assert_eq!(name_of(Path::new("a/redis.toml"), &[]), "redis");
        assert_eq!(name_of(Path::new("b/redis.toml"), &[named("redis"), named("redis-2")]), "redis-3");
    }
}
