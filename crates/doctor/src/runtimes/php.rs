//! PHP-FPM: a worker keeps the memory of its largest request.

use allocanary_text::units::OneDecimal;

use super::runtime::{Runtime, area, is_program};
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::subject::Subject;

pub(super) const RUNTIME: Runtime = Runtime { is_here: |process| is_program(process, "php-fpm"), remedies };

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    let Some(of_php) = area(subject, "PHP's") else { return };
    // A new worker has touched nothing of this memory, and less of its other memory.
    let bytes = subject.reading.kernel.anonymous;
    let remedy = |id: &str, what: &str, who, cost: &str, lines| Remedy {
        check: None,
        id: id.into(),
        what: what.into(),
        who,
        gives: Gives::Bound { bytes },
        evidence: format!(
            "{} are PHP's own memory. A worker keeps what its largest requests needed.",
            OneDecimal(of_php)
        ),
        cost: cost.into(),
        lines,
    };
    // The parent is found by its title: the signal must not reach another parent, such as a shell.
    let (own, title) = (&subject.reading.process, &subject.process.command);
    let master = match title {
        title if title.starts_with("php-fpm: master") => own.pid.to_string(),
        title if title.starts_with("php-fpm: pool") && own.parent > 1 => own.parent.to_string(),
        _ => "MASTER".to_string(),
    };
    all.push(remedy(
        "reload",
        "reload PHP-FPM: each worker ends after its request, and a new one starts",
        Who::OperatorNow,
        "requests wait while the first workers start",
        vec![PasteLine::new("shell", format!("kill -USR2 {master}"))],
    ));
    all.push(remedy(
        "pm=ondemand",
        "workers that are idle end",
        Who::OperatorRestart,
        "a fork when requests come again",
        vec![
            PasteLine::new("pool.d/www.conf", "pm = ondemand"),
            PasteLine::new("pool.d/www.conf", "pm.process_idle_timeout = 10s"),
        ],
    ));
}
