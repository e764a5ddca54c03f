//! Profiles of processes for whoever requests them. In: a request. Out: the profile that the child reads, in the format of pprof, or why
//! there is none.
//!
//! The thread that serves finds the process in the last report. The agent's thread has the profile read, between two steps. Only one
//! request waits at a time, and no longer than a connection may last.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use allocanary_rows::fleet::{ContainerState, NodeReport};
use bytes::Bytes;
use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::desk::Desk;
use crate::look::NoProfile;
use crate::metrics::plain;
use crate::pages::{Get, HttpPage, Later, PageRefusal, WITHIN};

/// The part of a connection's time that is kept to answer that the time was too short.
const SPARE: Duration = Duration::from_millis(500);
/// The error text for a bad request.
const WANTED: &str = "wanted ?pid=N, or one or more of ?namespace=, &pod= and &container=; /debug/pprof/ lists the processes that have a profile";

type Answer = Result<Bytes, PageRefusal>;

/// A request that waits. Until it is answered, others are refused.
pub struct ProfileRequest {
    /// The process.
    pub pid: u32,
    /// Whether the request gave the names of its container. The PID is then that of the last count.
    pub is_named: bool,
    tell: oneshot::Sender<Answer>,
    _turn: OwnedSemaphorePermit,
}

impl ProfileRequest {
    /// Whether the client has gone.
    pub fn is_given_up(&self) -> bool {
        self.tell.is_closed()
    }

    /// Answers with the profile, or why there is none. The outer error is how long to wait, because profiles have cost too much.
    pub fn answer(self, read: Result<Result<Vec<u8>, NoProfile>, Duration>) {
        let answer = match read {
            Ok(Ok(profile)) => Ok(profile.into()),
            Ok(Err(NoProfile::None(why))) => refuse(StatusCode::NOT_FOUND, why),
            Ok(Err(NoProfile::Failed(why))) => refuse(StatusCode::INTERNAL_SERVER_ERROR, why),
            Err(wait) => {
                let why = "profiles have cost more than half of the agent's share of CPU time: ask again in";
                refuse(StatusCode::TOO_MANY_REQUESTS, format!("{why} {} s", wait.as_secs() + 1))
            }
        };
        // The client may have gone.
        let _ = self.tell.send(answer);
    }
}

fn refuse(status: StatusCode, why: impl Into<String>) -> Answer {
    Err(PageRefusal { status, why: why.into() })
}

/// The pages: a list, and the profile of one process.
pub fn pages(desk: &Arc<Desk>, queue: Sender<ProfileRequest>) -> [HttpPage; 2] {
    let listed = desk.clone();
    let list = Get::Now(Box::new(move || Ok(list(&listed.shown().report).into())));
    let (desk, turns) = (desk.clone(), Arc::new(Semaphore::new(1)));
    let get = move |query: &str| -> Later {
        let (asked, queue, turns) = (pid(query, &desk.shown().report), queue.clone(), turns.clone());
        Box::pin(async move { ask(asked?, &queue, turns).await })
    };
    [
        HttpPage { path: "/debug/pprof/", kind: "text/plain; charset=utf-8", get: list },
        HttpPage { path: "/debug/pprof/heap", kind: "application/octet-stream", get: Get::Later(Box::new(get)) },
    ]
}

async fn ask((pid, is_named): (u32, bool), queue: &Sender<ProfileRequest>, turns: Arc<Semaphore>) -> Answer {
    let busy = |why: &str| refuse(StatusCode::SERVICE_UNAVAILABLE, format!("{why}: ask again"));
    let Ok(turn) = turns.try_acquire_owned() else { return busy("the profile of another process is being read") };
    let (tell, told) = oneshot::channel();
    let asked = ProfileRequest { pid, is_named, tell, _turn: turn };
    if queue.send(asked).is_err() {
        return busy("the agent ends");
    }
    match timeout(WITHIN - SPARE, told).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => busy("the agent ends"),
        Err(_) => busy("the agent was reading other processes"),
    }
}

/// The process that a query means, and whether the query gave names.
fn pid(query: &str, report: &NodeReport) -> Result<(u32, bool), PageRefusal> {
    let bad = |why: String| PageRefusal { status: StatusCode::BAD_REQUEST, why };
    let mut wanted: [Option<String>; 4] = Default::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let at = ["pid", "namespace", "pod", "container"].iter().position(|known| *known == key);
        let at = at.ok_or_else(|| bad(format!("{WANTED}; found {}=", plain(&key))))?;
        wanted[at] = Some(value.into_owned());
    }
    let [number, place @ ..] = wanted;
    let is_placed = place.iter().any(Option::is_some);
    if let Some(number) = number {
        let is_pid = |pid: &u32| *pid > 0 && !is_placed;
        return number
            .parse()
            .ok()
            .filter(is_pid)
            .map(|pid| (pid, false))
            .ok_or_else(|| bad(format!("{WANTED}; found pid={}", plain(&number))));
    }
    if !is_placed {
        return Err(bad(WANTED.into()));
    }
    let is_there = |row: &&ContainerState| {
        let own = [&row.namespace, &row.pod, &row.container];
        place.iter().zip(own).all(|(wanted, own)| wanted.as_ref().is_none_or(|wanted| wanted == own))
    };
    of_rows(&report.rows.iter().filter(is_there).collect::<Vec<_>>()).map(|pid| (pid, true))
}

/// The only process of these rows that has a profile.
fn of_rows(rows: &[&ContainerState]) -> Result<u32, PageRefusal> {
    let profiled: Vec<u32> = rows.iter().flat_map(|row| row.profiled.iter().copied()).collect();
    let none = |why: String| Err(PageRefusal { status: StatusCode::NOT_FOUND, why });
    match profiled.as_slice() {
        [pid] => Ok(*pid),
        [] if rows.is_empty() => none("no container of this node has these names; /report.json has all".into()),
        [] => {
            let sum = |of: fn(&ContainerState) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
            none(format!(
                "no process there has a profile, by its last reading: {} processes, of which {} were not read yet",
                sum(|row| row.processes),
                sum(|row| row.unread)
            ))
        }
        several => {
            let each: String = several.iter().map(|pid| format!("\n/debug/pprof/heap?pid={pid}")).collect();
            Err(PageRefusal {
                status: StatusCode::CONFLICT,
                why: format!("{} processes there have a profile, take one of:{each}", several.len()),
            })
        }
    }
}

/// The list of processes that have a profile, one on each line.
fn list(report: &NodeReport) -> String {
    let line = |row: &ContainerState, pid: &u32| {
        let names = [&row.namespace, &row.pod, &row.container].map(|name| plain(name));
        format!(
            "/debug/pprof/heap?pid={pid}  {}\n",
            names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(" ")
        )
    };
    let lines: String = report.rows.iter().flat_map(|row| row.profiled.iter().map(move |pid| line(row, pid))).collect();
    let unread: u64 = report.rows.iter().map(|row| row.unread).sum();
    format!("Processes that have a profile, by their last readings ({unread} were not read yet):\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> NodeReport {
        let row = |pod: &str, container: &str, profiled: &[u32], unread| ContainerState {
            namespace: "shop".into(),
            pod: pod.into(),
            container: container.into(),
            profiled: profiled.to_vec(),
            processes: 3,
            unread,
            ..ContainerState::default()
        };
        let unit =
            ContainerState { container: "my app\n.service".into(), profiled: vec![9], ..ContainerState::default() };
        let rows =
            vec![row("web-1", "web", &[5], 0), row("web-1", "log", &[], 2), row("web-2", "web", &[6, 7], 0), unit];
        NodeReport { rows, ..NodeReport::default() }
    }

    fn asked(query: &str) -> Result<u32, (u16, String)> {
        pid(query, &report()).map(|(pid, _)| pid).map_err(|refusal| (refusal.status.as_u16(), refusal.why))
    }

    #[test]
    fn a_query_means_one_process_or_it_is_said_why_not() {
        assert_eq!(asked("pid=123"), Ok(123), "also one that was not read yet");
        assert_eq!(asked("namespace=shop&pod=web-1&container=web"), Ok(5));
        assert_eq!(asked("pod=web-1"), Ok(5), "the only one of the pod");
        assert_eq!(asked("container=my+app%0A.service"), Ok(9));
        let (status, why) = asked("container=web").unwrap_err();
        assert_eq!((status, why.lines().count()), (409, 4), "{why}");
        assert!(why.ends_with("?pid=5\n/debug/pprof/heap?pid=6\n/debug/pprof/heap?pid=7"), "{why}");
        let (status, why) = asked("pod=web-1&container=log").unwrap_err();
        assert!(status == 404 && why.contains("3 processes, of which 2 were not read yet"), "{why}");
        assert_eq!(asked("pod=web-3").unwrap_err().0, 404);
        for bad in ["", "pid=", "pid=0", "pid=-1", "pid=5&pod=web-1", "pid=99999999999", "seconds=5&pid=5", "%ff=1"] {
            let (status, why) = asked(bad).unwrap_err();
            assert!(status == 400 && why.starts_with("wanted ?pid=N"), "{bad}: {why}");
        }
    }

    #[test]
    fn the_list_has_a_line_for_each_process_that_has_one() {
        let lines = list(&report());
        assert_eq!(
            lines,
            "Processes that have a profile, by their last readings (2 were not read yet):\n\
             /debug/pprof/heap?pid=5  shop web-1 web\n/debug/pprof/heap?pid=6  shop web-2 web\n\
             /debug/pprof/heap?pid=7  shop web-2 web\n/debug/pprof/heap?pid=9  my app\u{fffd}.service\n"
        );
    }
}
