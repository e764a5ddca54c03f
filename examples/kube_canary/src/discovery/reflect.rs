//! Follows one kind of object of the API server for ever. In: a kind, labels, and a function that gives the data to keep of
//! an object. Out: changes of the table of these data, and each failure.
//!
//! It lists all objects, and then watches from there. A watch that ends is continued where it ended. After 410 Gone, all objects are listed
//! again. The watcher of kube's runtime does the same, but reports nothing when a watch works again after a failure. A source that had
//! recovered then looked failed until the next change, which may take hours in a quiet cluster.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::clock;

/// The objects of one list request. A node is some 20 kB of JSON, most of it its list of images.
const PAGE: u32 = 50;
/// The server is asked to end a watch after this many seconds, with or without changes. The next watch uses the same
/// connection.
const TERM: u32 = 90;
/// A connection that is silent for longer than this is dead, because the server ends each watch after [`TERM`]. (The bookmarks that a watch
/// may bring are no sign of life: a server of version 1.34 sent none for a resource that nobody wrote to.)
pub(super) const SILENCE: Duration = Duration::from_secs(100);
/// The wait before the next attempt; it doubles after each attempt without a lasting watch.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A watch that lasted longer than this was not refused.
const HELD: Duration = Duration::from_secs(5);

/// What happened.
#[derive(Debug)]
pub(super) enum Change<T> {
    /// All objects, by name.
    All(HashMap<String, T>),
    /// An object was added or changed. `None`: it was removed.
    One(String, Option<T>),
    /// The server accepted the watch: the known objects are up to date until it sends a change.
    Stands,
    /// The server refused or could not be reached; the known objects stay.
    Failed(Error),
}

/// Follows the objects with these labels, keeps `row` of each, and calls `tell` with each event.
pub(super) async fn reflect<K, T>(
    objects: Api<K>,
    labels: Option<String>,
    row: impl Fn(&K) -> T,
    mut tell: impl FnMut(Change<T>),
) -> std::convert::Infallible
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut version = None;
    let mut wait = FIRST_WAIT;
    loop {
        let mut stood = None;
        let noted = |change| {
            if matches!(change, Change::Stands) {
                stood = Some(Instant::now());
            }
            tell(change);
        };
        if let Err(error) = follow(&objects, labels.as_deref(), &row, &mut version, noted).await {
            // The requested version is older than the server's memory, as after each of its restarts. This is not a failure,
            // but all objects must be listed again. If a list becomes too old before it ends, the server is too slow for it.
            match matches!(&error, Error::Api(status) if status.code == 410) && version.is_some() {
                true => version = None,
                false => tell(Change::Failed(error)),
            }
        }
        wait = next(wait, stood.map(|stood| stood.elapsed()));
        tokio::time::sleep(spread(wait)).await;
    }
}

/// The time to wait after an attempt. `stood` is how long its watch lasted, if there was one. Two kinds of servers must
/// not be asked again immediately: one that ends each watch at once, and an overloaded one that fails slowly.
fn next(wait: Duration, stood: Option<Duration>) -> Duration {
    match stood {
        Some(stood) if stood > HELD => FIRST_WAIT,
        _ => (wait * 2).min(LONGEST_WAIT),
    }
}

/// Follows until the watch ends. `version` is the last version that was seen; `None` if a list must come first.
async fn follow<K, T>(
    objects: &Api<K>,
    labels: Option<&str>,
    row: impl Fn(&K) -> T,
    version: &mut Option<String>,
    mut tell: impl FnMut(Change<T>),
) -> Result<(), Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let from = match version {
        Some(version) => version,
        None => {
            let (rows, at) = list(objects, labels, &row).await?;
            tell(Change::All(rows));
            version.insert(at)
        }
    };
    let wanted =
        WatchParams { label_selector: labels.map(str::to_string), timeout: Some(TERM), ..WatchParams::default() };
    let mut events = pin!(objects.watch(&wanted, from).await?);
    tell(Change::Stands);
    while let Ok(Some(event)) = tokio::time::timeout(SILENCE, events.next()).await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                *from = object.resource_version().unwrap_or_default();
                tell(Change::One(object.name_any(), Some(row(&object))));
            }
            WatchEvent::Deleted(object) => {
                *from = object.resource_version().unwrap_or_default();
                tell(Change::One(object.name_any(), None));
            }
            WatchEvent::Bookmark(mark) => *from = mark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(Error::Api(status)),
        }
    }
    Ok(())
}

/// All objects, page by page, and the version that they are of.
async fn list<K, T>(
    objects: &Api<K>,
    labels: Option<&str>,
    row: impl Fn(&K) -> T,
) -> Result<(HashMap<String, T>, String), Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut wanted = ListParams { label_selector: labels.map(str::to_string), ..ListParams::default().limit(PAGE) };
    let mut rows = HashMap::new();
    loop {
        let page = objects.list(&wanted).await?;
        rows.extend(page.items.iter().map(|object| (object.name_any(), row(object))));
        wanted.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if wanted.continue_token.is_none() {
            return Ok((rows, page.metadata.resource_version.unwrap_or_default()));
        }
    }
}

/// A random time between half of a span and the whole: the canaries of a cluster lose their API server at the same moment,
/// and must not come back at the same moment.
fn spread(span: Duration) -> Duration {
    let random = allocanary_sys::rng::Rng::new(clock::now() ^ u64::from(std::process::id())).next();
    span / 2 + (span / 2).mul_f64(random as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_watch_that_held_makes_the_next_wait_short_again() {
        let seconds = Duration::from_secs;
        assert_eq!(next(seconds(8), None), seconds(16), "however long the server took to refuse");
        assert_eq!(next(seconds(8), Some(seconds(1))), seconds(16), "a watch that ended at once");
        assert_eq!(next(seconds(20), None), LONGEST_WAIT);
        assert_eq!(next(LONGEST_WAIT, Some(seconds(90))), FIRST_WAIT);
    }
}
