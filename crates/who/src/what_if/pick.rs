//! Finds the site that a user names, or the names that the text could mean.

use crate::sites::AllocationSite;

/// The reason why the text does not identify one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No name contains the text.
    None,
    /// These names contain it; those that pin most come first.
    Several(Vec<String>),
}

/// Finds a site by its name as the table prints it, or by a part that only one name has. The table has dots in place of the end
/// or the middle of long names.
pub fn pick(sites: &[AllocationSite], text: &str) -> Result<String, Miss> {
    let names = || sites.iter().map(|site| site.name.as_str());
    if names().any(|name| name == text) {
        return Ok(text.into());
    }
    let is_meant = |name: &str| match text.split_once("...") {
        Some((start, end)) if !start.is_empty() => name.starts_with(start) && name[start.len()..].ends_with(end),
        _ => !text.is_empty() && name.contains(text),
    };
    let mut meant: Vec<String> = Vec::new();
    for name in names().filter(|name| is_meant(name)) {
        // One name in several modules is one site.
        if meant.iter().all(|known| known != name) {
            meant.push(name.into());
        }
    }
    match meant.len() {
        0 => Err(Miss::None),
        1 => Ok(meant.remove(0)),
        _ => Err(Miss::Several(meant)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_meant_by_its_name_or_by_a_part_of_no_other() {
        let site = |name: &str| AllocationSite { name: name.into(), ..AllocationSite::default() };
        let sites = ["sds_new", "sds_new_len", "dict_add", "dict_add", "a_long_name_of_a"].map(site);
        let of = |text| pick(&sites, text);
        assert_eq!(of("sds_new").as_deref(), Ok("sds_new"), "the whole name, though it is a part of another");
        assert_eq!(of("new_l").as_deref(), Ok("sds_new_len"));
        assert_eq!(of("dict").as_deref(), Ok("dict_add"), "one name twice is one site");
        assert_eq!(of("a_long_n...").as_deref(), Ok("a_long_name_of_a"));
        assert_eq!(of("sd...w_len").as_deref(), Ok("sds_new_len"));
        assert_eq!(of("sds"), Err(Miss::Several(vec!["sds_new".into(), "sds_new_len".into()])));
        assert_eq!([of("free"), of(""), of("...")], [Err(Miss::None), Err(Miss::None), Err(Miss::None)]);
    }
}
