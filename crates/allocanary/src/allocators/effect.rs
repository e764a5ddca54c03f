//! Whether an allocator's setting can have an effect in this process. In: settings and what the kernel reports. Out:
//! the settings without effect, with the reason.

use std::collections::BTreeMap;

use allocanary_sys::proc::ProcStatus;

/// The settings for which `why` returns a reason, with that reason.
#[inline]
pub fn without_effect(
    settings: &BTreeMap<String, String>,
    why: impl Fn(&str, &str) -> Option<String>,
) -> BTreeMap<String, String> {
    settings.iter().filter_map(|(name, value)| Some((name.clone(), why(name, value)?))).collect()
}

/// Returns the reason if this process has no page of the huge page pool. The kernel counts these pages.
pub fn no_pool_pages() -> Option<String> {
    pool_pages_missing(ProcStatus::own().ok().and_then(|status| status.reserved_huge))
}

fn pool_pages_missing(bytes: Option<u64>) -> Option<String> {
    (bytes.unwrap_or(0) == 0).then(|| "this process has no page of the huge page pool (HugetlbPages is 0)".to_string())
}

/// Returns the reason if the mode of transparent huge pages is not one of `needed`.
pub fn unless_thp_is(needed: &[&str]) -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    thp_is_other(&text, needed)
}

fn thp_is_other(text: &str, needed: &[&str]) -> Option<String> {
    let mode = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("unknown", |(mode, _)| mode);
    (!needed.contains(&mode))
        .then(|| format!("transparent huge pages are `{mode}` here, wanted {}", needed.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_decides() {
        assert_eq!(pool_pages_missing(Some(2048)), None);
        assert!(pool_pages_missing(Some(0)).is_some() && pool_pages_missing(None).is_some());
        let text = "always [madvise] never\n";
        assert_eq!(thp_is_other(text, &["madvise"]), None);
        let said = thp_is_other("always madvise [never]\n", &["madvise", "always"]).unwrap();
        assert_eq!(said, "transparent huge pages are `never` here, wanted madvise or always");
        let settings = BTreeMap::from([("a".to_string(), "1".to_string()), ("b".into(), "2".into())]);
        let found = without_effect(&settings, |name, value| (name == "b").then(|| value.to_string()));
        assert_eq!(found, BTreeMap::from([("b".to_string(), "2".to_string())]));
    }
}
