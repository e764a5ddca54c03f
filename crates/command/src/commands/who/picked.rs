//! Finds the site that a user names. In: sites, a text, the flag with the text. Out: the site's name, or an error with
//! similar names.

use allocanary_rows::error::{Error, Result};
use allocanary_rows::nearest;
use allocanary_text::outside::harmless;
use allocanary_who::SiteReport;
use allocanary_who::what_if::{Miss, pick};

/// The number of sites that an error names.
const NAMED: usize = 5;

/// The name of the site.
pub fn name(found: &SiteReport, flag: &str, text: &str) -> Result<String> {
    let list = |names: &[&str]| names.iter().map(|name| format!("`{}`", harmless(name))).collect::<Vec<_>>().join(", ");
    let shown = harmless(text);
    match pick(&found.sites, text) {
        Ok(name) => Ok(name),
        Err(Miss::Several(names)) => {
            let few: Vec<&str> = names.iter().map(String::as_str).take(NAMED).collect();
            let more = names.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Err(Error::Input(format!(
                "{flag} {shown}: wanted one site, found {} with that in their names: {}{more}: give the whole name",
                names.len(),
                list(&few)
            )))
        }
        Err(Miss::None) => {
            let names = || found.sites.iter().map(|site| site.name.as_str());
            let (near, which) = match nearest(text, names()) {
                near if near.is_empty() => (names().take(NAMED).collect(), "those that pin most are"),
                near => (near, "the nearest are"),
            };
            let near = if near.is_empty() { "there is none".into() } else { format!("{which} {}", list(&near)) };
            Err(Error::Input(format!("{flag} {shown}: wanted the name of a site, found none of this name: {near}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_who::pages::Divided;
    use allocanary_who::{AllocationSite, By, MomentChoice, TracePoint};

    fn found(names: &[&str]) -> SiteReport {
        let marks = allocanary_trace::format::Marks::default();
        let moment = TracePoint::of(Some(MomentChoice::At(1)), &marks, &[]).unwrap().unwrap();
        let site = |name: &&str| AllocationSite { name: (*name).into(), ..AllocationSite::default() };
        let sites = names.iter().map(site).collect();
        let (pages, notes) = (Divided::default(), Vec::new());
        SiteReport {
            program: "a".into(),
            moment,
            nanos: 1,
            by: By::Function,
            sites,
            pages,
            span: None,
            freed_from_before: None,
            one_in: None,
            wrappers: Vec::new(),
            notes,
        }
    }

    #[test]
    fn a_site_that_is_not_known_is_answered_with_those_that_are_near() {
        let found = found(&["sds_new", "sds_free", "dict_add", "query", "log", "hook"]);
        let error = |text| name(&found, "--what-if", text).unwrap_err().to_string();
        assert_eq!(name(&found, "--what-if", "sds_f").unwrap(), "sds_free");
        assert!(error("sds_").ends_with(
            "wanted one site, found 2 with that in their names: `sds_new`, `sds_free`: give the whole name"
        ));
        assert!(error("dict_ad2").ends_with("found none of this name: the nearest are `dict_add`"));
        assert!(error("zzzz").ends_with("those that pin most are `sds_new`, `sds_free`, `dict_add`, `query`, `log`"));
        assert!(name(&self::found(&[]), "--what-if", "x").unwrap_err().to_string().ends_with("there is none"));
    }
}
