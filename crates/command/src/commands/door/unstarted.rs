//! `allocanary -- COMMAND`: says which verb answers which question about a program that does not run yet. In: its command. Out: lines.
//! Nothing is started.

use std::process::ExitCode;

use super::super::terminal;
use allocanary_doctor::program::StartableProgram;
use allocanary_rows::error::{Error, Result};
use allocanary_text::paste::CommandLine;

/// Prints the lines.
pub fn print(command: &[String]) -> Result<ExitCode> {
    let [name, ..] = command else { return Ok(ExitCode::SUCCESS) };
    let program = StartableProgram::look_at(name).map_err(Error::Input)?;
    terminal::print_plain(&text(&program, command))
}

fn text(program: &StartableProgram, command: &[String]) -> String {
    let own = program.own.name();
    let mut out = format!("{} has {own}. Nothing was started.\n\n", program.path.display());
    let preloads = match &program.cannot {
        Some(why) => {
            out.push_str(&format!("No other allocator can be preloaded: {why}.\n\n"));
            false
        }
        None => true,
    };
    let mut item =
        |question: &str, begin: CommandLine| out.push_str(&format!("{question}\n  {}\n", begin.words(command)));
    if preloads {
        item("Which allocator needs the least memory, at what cost?", CommandLine::new("allocanary run --"));
        item(
            "Which settings are best? (some minutes; it ends with the lines to paste)",
            CommandLine::new("allocanary tune --"),
        );
        item(
            "Who allocates what, and what would each allocator make of it?",
            CommandLine::new("allocanary record --stack-sample all --"),
        );
    } else {
        item("How much memory does it need?", CommandLine::new("allocanary run --"));
    }
    out.push_str("Does it run already? `allocanary PROCESS` says what its memory is, and what to do.\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_doctor::Flavour;

    #[test]
    fn the_command_is_filled_in_and_a_program_without_a_loader_gets_no_preload() {
        let mut program = StartableProgram {
            path: "/bin/x".into(),
            runs: "/bin/x".into(),
            own: Flavour::Glibc,
            how: String::new(),
            cannot: None,
        };
        let command = ["x".to_string(), "two words".into()];
        let dynamic = text(&program, &command);
        for line in ["run -- x 'two words'", "tune -- x 'two words'", "record --stack-sample all -- x 'two words'"] {
            assert!(dynamic.contains(&format!("\n  allocanary {line}\n")), "{dynamic}");
        }
        program.cannot = Some("/bin/x is linked statically".into());
        let fixed = text(&program, &command);
        assert!(fixed.contains("can be preloaded: /bin/x is linked statically.") && !fixed.contains("tune"), "{fixed}");
    }
}
